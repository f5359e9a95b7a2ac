import { expect, test } from "vitest";
import { curlProgram, openaiProgram, serverVariables, tinkerProgram, tinkerVariables } from "./key-snippets";

test("the variables have this server's address and the key as each client reads it", () => {
  expect(serverVariables("http://h:1", "ts_k").split("\n")).toEqual(["export TINKERSCRIPT_BASE_URL=http://h:1", "export TINKERSCRIPT_API_KEY=ts_k"]);
  expect(tinkerVariables("http://h:1", "ts_k").split("\n")).toEqual(["pip install tinker", "export TINKER_BASE_URL=http://h:1", "export TINKER_API_KEY=tml-ts_k"]);
});

test("no name of a model leaves its quotes", () => {
  const odd = `it's "$(odd)"`;
  expect(curlProgram(odd)).toContain(String.raw`'{"base_model":"it'\''s \"$(odd)\""}'`);
  for (const program of [openaiProgram(odd), tinkerProgram(odd)]) expect(program).toContain(`base_model=${JSON.stringify(odd)}`);
});

test("a program plays a whole episode and has no key in it", () => {
  for (const program of [curlProgram("m"), openaiProgram("m")]) {
    for (const part of ["/sessions", "/episodes", "/end"]) expect(program).toContain(part);
    expect(program).not.toContain("ts_");
  }
});
