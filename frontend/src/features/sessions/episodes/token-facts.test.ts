import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import type { TokenRun, TokenTimeline } from "../../../api/types";
import { findToken, nextToken, TokenFacts, whichDistribution } from "./token-facts";
import { scaleOf } from "./token-heat";

function run(call: string | null, start: number, tokens: number): TokenRun {
  return {
    call,
    answer: 0,
    start,
    tokens,
    text: "",
    token_ids: [],
    pieces: [],
    logprobs: [],
    policy_versions: [],
    split_bytes: {},
    advantage: null,
    raw_logprobs: null,
    trainer_logprobs: null,
    trainer_logprobs_after: null,
    is_sampled_raw: false,
  };
}

const LINES: TokenTimeline[] = [
  {
    index: 0,
    agent: null,
    tokens: 10,
    runs: [run(null, 0, 3), run("a", 3, 2), run(null, 5, 2), run("b", 7, 3)],
  },
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

const TEMPERED = { sampling: { temperature: 0.7, top_p: 0.9, max_tokens: 5, grammar: true } };

test("a raw log-probability stands beside the sampled one where they differ, and words say which is which", () => {
  const told = {
    ...run("a", 3, 1),
    pieces: ["x"],
    token_ids: [5],
    policy_versions: [2],
    logprobs: [-0.5],
    raw_logprobs: [-2],
  };
  const shown = renderToStaticMarkup(
    createElement(TokenFacts, {
      run: told,
      at: 0,
      token: 3,
      scale: scaleOf([]),
      options: TEMPERED,
    }),
  );
  for (const part of [
    "Log-probability<",
    ">-0.5<",
    "60.65 %",
    "Raw log-probability<",
    ">-2<",
    "13.53 %",
    "after temperature 0.7, top_p 0.9 and a grammar",
    "Raw: the model’s own",
  ])
    expect(shown).toContain(part);
  const same = renderToStaticMarkup(
    createElement(TokenFacts, {
      run: { ...told, raw_logprobs: null, is_sampled_raw: true },
      at: 0,
      token: 3,
      scale: scaleOf([]),
      options: undefined,
    }),
  );
  expect(same).not.toContain("Raw log-probability");
  expect(same).toContain("the log-probability is the raw one");
});

test("the trainer's log-probability stands beside the sampled one with their ratio; what is not kept is not 1", () => {
  const told = {
    ...run("a", 3, 2),
    pieces: ["x", "y"],
    token_ids: [5, 6],
    policy_versions: [2, 2],
    logprobs: [-0.5, -1],
    trainer_logprobs: [-0.4, null],
    trainer_logprobs_after: [-0.1, null],
  };
  const shown = (at: number, of: TokenRun = told) =>
    renderToStaticMarkup(
      createElement(TokenFacts, { run: of, at, token: 3, scale: scaleOf([]), options: undefined }),
    );
  for (const part of [
    "Trainer’s log-probability<",
    ">-0.4<",
    "Ratio<",
    ">1.105<",
    ">-0.1<",
    ">0.3<",
  ])
    expect(shown(0)).toContain(part);
  for (const other of [
    shown(1),
    shown(0, { ...told, trainer_logprobs: null, trainer_logprobs_after: null }),
  ])
    expect(other.match(/>not kept</g)).toHaveLength(4);
});

test("what was not recorded is said to be so", () => {
  expect(whichDistribution(run("a", 3, 1), TEMPERED)).toContain("was not recorded here");
  expect(whichDistribution(run("a", 3, 1), { sampling: { temperature: 1, top_p: 1 } })).toContain(
    "sampled from. Training",
  );
});
