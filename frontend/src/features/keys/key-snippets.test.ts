import { expect, test } from "vitest";
import {
  curlProgram,
  openaiProgram,
  serverVariables,
  tinkerProgram,
  tinkerVariables,
} from "./key-snippets";

test("the variables have this server's address and the key as it was shown", () => {
  expect(serverVariables("http://h:1", "tml-ts_k").split("\n")).toEqual([
    "export TINKERSCRIPT_BASE_URL=http://h:1",
    "export TINKERSCRIPT_API_KEY=tml-ts_k",
  ]);
  expect(tinkerVariables("http://h:1", "tml-ts_k").split("\n")).toEqual([
    "pip install tinker",
    "export TINKER_BASE_URL=http://h:1",
    "export TINKER_API_KEY=tml-ts_k",
  ]);
});

test("no name of a model leaves its quotes", () => {
  const odd = `it's "$(odd)"`;
  expect(curlProgram(odd)).toContain(String.raw`'{"base_model":"it'\''s \"$(odd)\"",`);
  for (const program of [openaiProgram(odd), tinkerProgram(odd)])
    expect(program).toContain(JSON.stringify(odd));
});

test("a program plays the episodes of a step, ends its session, and has no key in it", () => {
  for (const program of [curlProgram("m"), openaiProgram("m")]) {
    for (const part of [
      "/sessions",
      "/episodes",
      "/end",
      "/stop",
      '"tasks_per_batch":',
      "steps trained:",
    ])
      expect(program).toContain(part);
    expect(program).not.toContain("tml-");
  }
});
