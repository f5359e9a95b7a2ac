import { expect, test } from "vitest";
import { read, split, wholeAnswer } from "./chat-stream";

const chunk = (choice: unknown) => `data: ${JSON.stringify({ choices: [choice] })}`;
const scored = (content: string, ...tokens: [string, number][]) =>
  chunk({
    delta: { content },
    finish_reason: null,
    logprobs: { content: tokens.map(([token, logprob]) => ({ token, logprob })) },
  });

test("a stream is cut at its events, wherever the network cut it", () => {
  const { events, left } = split(`${chunk({ delta: { content: "a" } })}\n\ndata: {"cho`);
  expect(events).toHaveLength(1);
  expect(left).toBe('data: {"cho');
  expect(split(`${left}ices":[]}\n\n`).events).toEqual(['data: {"choices":[]}']);
});

test("tokens come with their log-probabilities, and without them where there are none", () => {
  const tokens = [
    { text: "a", logprob: -1, count: 1 },
    { text: "b", logprob: -2, count: 1 },
  ];
  expect(read(scored("ab", ["a", -1], ["b", -2]))).toMatchObject({
    tokens,
    content: "ab",
    calls: [],
    finish: null,
  });
  expect(read(chunk({ delta: { content: "ab" }, finish_reason: "stop" }))).toMatchObject({
    tokens: [{ text: "ab", logprob: undefined, count: 0 }],
    finish: "stop",
  });
});

test("a character of several tokens is one text, with what its tokens sum to", () => {
  expect(
    read(scored("a☔ b", ["a", -1], ["\ufffd", -2], ["\ufffd", -3], [" b", -4]))?.tokens,
  ).toEqual([
    { text: "a", logprob: -1, count: 1 },
    { text: "☔", logprob: -5, count: 2 },
    { text: " b", logprob: -4, count: 1 },
  ]);
});

test("the end of a turn is counted and no text, and thoughts are text", () => {
  const end = chunk({
    delta: {},
    finish_reason: "stop",
    logprobs: { content: [{ token: "<|im_end|>", logprob: -1 }] },
  });
  expect(read(end)).toMatchObject({
    tokens: [{ text: "", logprob: -1, count: 1 }],
    finish: "stop",
  });
  const thought = read(chunk({ delta: { reasoning_content: "hm" }, finish_reason: null }));
  expect([thought?.tokens.map(({ text }) => text), thought?.content]).toEqual([["hm"], ""]);
});

test("an event without a choice adds nothing, and the server's error is raised", () => {
  expect(read("data: [DONE]")).toBeNull();
  expect(read(": a comment")).toBeNull();
  expect(read('data: {"choices":[],"usage":{}}')).toBeNull();
  expect(() => read('data: {"error":{"message":"the engine is gone"}}')).toThrow(
    "the engine is gone",
  );
});

test("an endpoint that does not stream gives its answer, its calls or its own words", () => {
  const call = { id: "c1", type: "function", function: { name: "add", arguments: "{}" } };
  expect(
    wholeAnswer(200, {
      choices: [{ message: { content: null, tool_calls: [call] }, finish_reason: "tool_calls" }],
    }),
  ).toEqual({ tokens: [], content: "", calls: [{ ...call, index: 0 }], finish: "tool_calls" });
  expect(wholeAnswer(200, { choices: [{ message: { content: "7" } }] })).toMatchObject({
    content: "7",
    finish: null,
    tokens: [{ text: "7" }],
  });
  expect(() => wholeAnswer(401, { error: { message: "no such key" } })).toThrow("no such key");
  expect(() => wholeAnswer(502, {})).toThrow("502");
});
