import { expect, test } from "vitest";
import { curlSnippet, policySnippet, python, pythonSnippet, type ChatBody } from "./call-snippets";

const body: ChatBody = {
  model: "ckp_1",
  messages: [{ role: "user", content: 'it\'s "so"\n$HOME `x`' }],
  temperature: 0,
  max_tokens: 8,
};

test("a shell passes the body on as it is", () => {
  const quoted = /-d '([\s\S]*)'\n$/.exec(curlSnippet("http://h/openai/v1", body))?.[1] ?? "";
  expect(JSON.parse(quoted.replaceAll(String.raw`'\''`, "'"))).toEqual(body);
});

test("a program has each message as a literal, and no key in it", () => {
  const program = pythonSnippet("http://h/openai/v1", body);
  expect(program).toContain(JSON.stringify(body.messages[0]?.content));
  expect(program).toContain('os.environ["TINKERSCRIPT_CALL_KEY"]');
});

test("what JSON and Python write differently is written as Python", () => {
  expect(python({ a: [null, true, false, 1.5, "x\ny"], b: undefined })).toBe(
    '{"a": [None, True, False, 1.5, "x\\ny"]}',
  );
});

test("a conversation with tools is a program with all of its turns, for a key of the project or a run's policy", () => {
  const calls = [
    { id: "c1", type: "function" as const, function: { name: "add", arguments: '{"a":3}' } },
  ];
  const asked = {
    ...body,
    messages: [
      ...body.messages,
      { role: "assistant", content: null, tool_calls: calls },
      { role: "tool", content: "7", tool_call_id: "c1" },
    ],
    tools: [{ type: "function", function: { name: "add" } }],
  };
  const program = pythonSnippet("http://h/oai/api/v1", asked, "TINKERSCRIPT_API_KEY");
  expect(program).toContain('os.environ["TINKERSCRIPT_API_KEY"]');
  expect(program).toMatch(
    /"content": None, "tool_calls": \[.*"tool_call_id": "c1"\}.*tools=\[.*tool_calls\)/s,
  );
  expect(policySnippet("ses_1", asked)).toMatch(
    /session_id="ses_1".*eval=True.*abandon.*stop=False/s,
  );
});

test("an address that a shell would read in another way is quoted", () => {
  const body = { model: "m", messages: [], temperature: 1, max_tokens: 1 };
  for (const base of [
    "http://[::1]:8000/v1",
    "https://lab.example.org/v1?version=1&x",
    "https://lab.example.org/it's",
  ]) {
    expect(curlSnippet(base, body)).toMatch(/^curl '/);
  }
  expect(curlSnippet("https://lab.example.org:8443/oai/api/v1", body)).toMatch(/^curl https:/);
});
