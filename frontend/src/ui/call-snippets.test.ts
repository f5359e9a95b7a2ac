import { expect, test } from "vitest";
import { curlSnippet, pythonSnippet, type ChatBody } from "./call-snippets";

const body: ChatBody = { model: "ckp_1", messages: [{ role: "user", content: "it's \"so\"\n$HOME `x`" }], temperature: 0, max_tokens: 8 };

test("a shell passes the body on as it is", () => {
  const quoted = /-d '([\s\S]*)'\n$/.exec(curlSnippet("http://h/openai/v1", body))?.[1] ?? "";
  expect(JSON.parse(quoted.replaceAll(String.raw`'\''`, "'"))).toEqual(body);
});

test("a program has each message as a literal, and no key in it", () => {
  const program = pythonSnippet("http://h/openai/v1", body);
  expect(program).toContain(JSON.stringify(body.messages[0]?.content));
  expect(program).toContain('os.environ["TINKERSCRIPT_CALL_KEY"]');
});
