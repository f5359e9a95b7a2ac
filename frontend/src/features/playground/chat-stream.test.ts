import { expect, test } from "vitest";
import { read, split } from "./chat-stream";

const chunk = (choice: unknown) => `data: ${JSON.stringify({ choices: [choice] })}`;

test("a stream is cut at its events, wherever the network cut it", () => {
  const { events, left } = split(`${chunk({ delta: { content: "a" } })}\n\ndata: {"cho`);
  expect(events).toHaveLength(1);
  expect(left).toBe('data: {"cho');
  expect(split(`${left}ices":[]}\n\n`).events).toEqual(['data: {"choices":[]}']);
});

test("tokens come with their log-probabilities, and without them where there are none", () => {
  const scored = { delta: { content: "ab" }, finish_reason: null, logprobs: { content: [{ token: "a", logprob: -1 }, { token: "b", logprob: -2 }] } };
  expect(read(chunk(scored))).toEqual({ tokens: [{ text: "a", logprob: -1 }, { text: "b", logprob: -2 }], finish: null });
  expect(read(chunk({ delta: { content: "ab" }, finish_reason: "stop" }))).toEqual({ tokens: [{ text: "ab", logprob: undefined }], finish: "stop" });
});

test("an event without a choice adds nothing, and the server's error is raised", () => {
  expect(read("data: [DONE]")).toBeNull();
  expect(read(": a comment")).toBeNull();
  expect(read('data: {"choices":[],"usage":{}}')).toBeNull();
  expect(() => read('data: {"error":{"message":"the engine is gone"}}')).toThrow("the engine is gone");
});
