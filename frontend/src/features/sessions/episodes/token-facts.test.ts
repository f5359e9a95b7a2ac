import { expect, test } from "vitest";
import type { TokenRun, TokenTimeline } from "../../../api/types";
import { findToken, nextToken } from "./token-facts";

function run(call: string | null, start: number, tokens: number): TokenRun {
  return { call, answer: 0, start, tokens, text: "", token_ids: [], pieces: [], logprobs: [], policy_versions: [], split_bytes: {}, advantage: null };
}

const LINES: TokenTimeline[] = [
  { index: 0, agent: null, tokens: 10, runs: [run(null, 0, 3), run("a", 3, 2), run(null, 5, 2), run("b", 7, 3)] },
  { index: 1, agent: null, tokens: 4, runs: [run(null, 0, 2), run("c", 2, 2)] },
];

test("a token is found where it was sampled, and context is none", () => {
  expect(findToken(LINES, 0, 8)).toMatchObject({ run: { call: "b" }, at: 1 });
  expect(findToken(LINES, 0, 5)).toBeNull();
  expect(findToken(LINES, 1, 3)).toMatchObject({ run: { call: "c" }, at: 1 });
});

test("the arrows go from sampled token to sampled token, over context", () => {
  expect(nextToken(LINES, 0, -1, 1)).toBe(3);
  expect(nextToken(LINES, 0, 4, 1)).toBe(7);
  expect(nextToken(LINES, 0, 9, 1)).toBeNull();
  expect(nextToken(LINES, 0, 7, -1)).toBe(4);
  expect(nextToken(LINES, 0, 3, -1)).toBeNull();
});
