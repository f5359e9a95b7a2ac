import { expect, test } from "vitest";
import {
  answerEntry,
  bodyOf,
  NOTHING_YET,
  resultEntries,
  toolsOf,
  waitingCalls,
  withDeltas,
} from "./conversation";

const token = (text: string) => ({ text, logprob: -1, count: 1 });
const NONE = { tokens: [], content: "", calls: [], finish: null };

test("what came since the last time is added in order, and a reason to end stays", () => {
  const before = { ...NOTHING_YET, tokens: [token("a")], content: "a" };
  const deltas = [
    { ...NONE, tokens: [token("b")], content: "b" },
    { ...NONE, finish: "stop" },
    NONE,
  ];
  expect(withDeltas(before, deltas)).toMatchObject({
    tokens: [token("a"), token("b")],
    content: "ab",
    finish: "stop",
  });
});

test("calls of tools are put together from their pieces, and wait for what the tools give back", () => {
  const pieces = [
    { index: 0, id: "c1", function: { name: "add", arguments: '{"a"' } },
    { index: 1, id: "c2", function: { name: "now" } },
    { index: 0, function: { arguments: ":3}" } },
  ];
  const answer = pieces.reduce(
    (before, piece) => withDeltas(before, [{ ...NONE, calls: [piece] }]),
    NOTHING_YET,
  );
  const asked = answerEntry(answer);
  expect(asked.message).toEqual({
    role: "assistant",
    content: null,
    tool_calls: [
      { id: "c1", type: "function", function: { name: "add", arguments: '{"a":3}' } },
      { id: "c2", type: "function", function: { name: "now", arguments: "" } },
    ],
  });
  const results = resultEntries(waitingCalls([asked]), { c1: "7" });
  expect(results.map(({ message }) => message)).toEqual([
    { role: "tool", content: "7", tool_call_id: "c1" },
    { role: "tool", content: "", tool_call_id: "c2" },
  ]);
  expect(waitingCalls([asked, ...results])).toEqual([]);
});

test("each request carries the whole conversation, and the thoughts of an answer are not sent back", () => {
  const answer = answerEntry(
    withDeltas(NOTHING_YET, [
      { ...NONE, tokens: [token("hm")] },
      { ...NONE, tokens: [token("7")], content: "7" },
    ]),
  );
  const entries = [
    { message: { role: "user", content: "3 + 4?" } },
    answer,
    { message: { role: "user", content: "Sure?" } },
  ];
  expect(bodyOf({ system: "brief", temperature: 0, max_tokens: 8, tools: [] }, entries)).toEqual({
    messages: [
      { role: "system", content: "brief" },
      { role: "user", content: "3 + 4?" },
      { role: "assistant", content: "7" },
      { role: "user", content: "Sure?" },
    ],
    temperature: 0,
    max_tokens: 8,
  });
});

test("tools are typed as JSON: a list, one alone, or nothing", () => {
  const tool = { type: "function", function: { name: "add" } };
  expect(toolsOf(" ")).toEqual([]);
  expect(toolsOf(JSON.stringify([tool]))).toEqual([tool]);
  expect(toolsOf('{"name":"add"}')).toEqual([tool]);
  expect(() => toolsOf("[3]")).toThrow("object");
  expect(() => toolsOf("{")).toThrow();
});
