import { expect, test } from "vitest";
import type { TrajectoryCall } from "../../../api/types";
import { readable } from "../../../ui/cut-text";
import { threadsOf, turnText } from "./turns";

function call(
  id: string,
  messages: Record<string, unknown>[],
  answer: Record<string, unknown> | null,
  more: Partial<TrajectoryCall> = {},
): TrajectoryCall {
  const answers = answer
    ? [
        {
          index: 0,
          message: { role: "assistant", ...answer },
          finish_reason: "stop",
          timeline: 0,
          start: 0,
          tokens: 3,
          token_ids: [],
          logprobs: [],
          policy_versions: [],
        },
      ]
    : [];
  return {
    id,
    status: "completed",
    agent: null,
    begun_at: 0,
    ended_at: 1,
    options: {},
    continues: null,
    messages_from: 0,
    messages,
    drift: null,
    answers,
    prompt_token_ids: [],
    ...more,
  } as TrajectoryCall;
}

const weather = {
  id: "1",
  type: "function",
  function: { name: "weather", arguments: '{"city":"Paris","days":[1,2]}' },
};

test("calls that continue each other are one conversation, in which what the client sends back stands once", () => {
  const calls = [
    call(
      "a",
      [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Rain?" },
      ],
      { content: "<think>\nI look.\n</think>\n\nOne moment.", tool_calls: [weather] },
    ),
    call(
      "b",
      [
        {
          role: "assistant",
          content: "<think>\nI look.\n</think>\n\nOne moment.",
          tool_calls: [weather],
        },
        { role: "tool", content: '{"rain":true}', tool_call_id: "1" },
      ],
      { content: "Yes.", reasoning_content: "It rains." },
      { continues: "a" },
    ),
  ];
  const [thread, ...others] = threadsOf(calls);
  expect(others).toEqual([]);
  expect(thread?.turns.map(({ role, isSampled, parts }) => [role, isSampled, parts])).toEqual([
    ["system", false, [{ kind: "text", text: "Be brief." }]],
    ["user", false, [{ kind: "text", text: "Rain?" }]],
    [
      "assistant",
      true,
      [
        { kind: "thoughts", text: "I look." },
        { kind: "text", text: "One moment." },
        {
          kind: "call",
          name: "weather",
          text: '{\n  "city": "Paris",\n  "days": [\n    1,\n    2\n  ]\n}',
        },
      ],
    ],
    ["tool", false, [{ kind: "result", text: '{\n  "rain": true\n}' }]],
    [
      "assistant",
      true,
      [
        { kind: "thoughts", text: "It rains." },
        { kind: "text", text: "Yes." },
      ],
    ],
  ]);
  expect(thread?.turns[2]?.note).toBe("call 1, 3 tokens");
});

test("what the client changed before it sent it back is there as it was sent", () => {
  const calls = [
    call("a", [{ role: "user", content: "?" }], { content: "one" }),
    call(
      "b",
      [
        { role: "assistant", content: "ONE" },
        { role: "user", content: "and?" },
      ],
      { content: "two" },
      { continues: "a" },
    ),
  ];
  expect(threadsOf(calls)[0]?.turns.map((turn) => turnText(turn))).toEqual([
    "?",
    "one",
    "ONE",
    "and?",
    "two",
  ]);
});

test("agents, and two ways on from one call, are conversations of their own", () => {
  const calls = [
    call("a", [{ role: "user", content: "x" }], { content: "1" }, { agent: "planner" }),
    call("b", [{ role: "user", content: "y" }], { content: "2" }, { agent: "solver" }),
    call(
      "c",
      [{ role: "user", content: "more" }],
      { content: "3" },
      { agent: "planner", continues: "a" },
    ),
    call("d", [{ role: "user", content: "other" }], null, {
      agent: "planner",
      continues: "a",
      status: "cancelled",
    }),
  ];
  expect(threadsOf(calls).map(({ agent, origin, turns }) => [agent, origin, turns.length])).toEqual(
    [
      ["planner", "", 4],
      ["solver", "", 2],
      ["planner", "Another way on from call 1", 2],
    ],
  );
  expect(threadsOf(calls)[2]?.turns[1]?.note).toBe("call 4, cancelled");
});

test("parts, pictures, scripts and broken JSON are what they are", () => {
  const content = [
    { type: "text", text: "مرحبا 👩‍👩‍👧 日本語" },
    { type: "image_url", image_url: { url: "data:," } },
  ];
  const [thread] = threadsOf([
    call("a", [{ role: "user", content }], {
      content: null,
      function_call: { name: "f", arguments: '{"a":' },
    }),
  ]);
  expect(thread?.turns[0]?.parts).toEqual([
    { kind: "text", text: "مرحبا 👩‍👩‍👧 日本語" },
    { kind: "other", text: "image_url" },
  ]);
  expect(thread?.turns[1]?.parts).toEqual([{ kind: "call", name: "f", text: '{"a":' }]);
  expect([readable("[1] is a link"), readable({ a: 1 }), readable(undefined)]).toEqual([
    "[1] is a link",
    '{\n  "a": 1\n}',
    "",
  ]);
  expect(readable('{"id": 12345678901234567890}')).toBe('{"id": 12345678901234567890}');
  expect(
    threadsOf([call("a", [{ role: "user", content: [null, "x"] }], null)])[0]?.turns[0]?.parts,
  ).toEqual([
    { kind: "other", text: "null" },
    { kind: "other", text: "x" },
  ]);
  expect(threadsOf([])).toEqual([]);
});

test("thoughts that were cut off are thoughts", () => {
  const [thread] = threadsOf([call("a", [], { content: "<think>I never" })]);
  expect(thread?.turns[0]?.parts).toEqual([{ kind: "thoughts", text: "I never" }]);
});
