import { expect, test } from "vitest";
import type { EpisodeTimelines, TokenRun } from "../../../api/types";
import { joinPages } from "./use-tokens";

function run(
  call: string | null,
  start: number,
  pieces: string[],
  split: Record<number, string> = {},
): TokenRun {
  const zeros = pieces.map(() => 0);
  return {
    call,
    answer: 0,
    start,
    tokens: pieces.length,
    text: pieces.join(""),
    token_ids: zeros,
    pieces,
    logprobs: zeros,
    policy_versions: zeros,
    split_bytes: split,
    advantage: null,
    raw_logprobs: call === null ? null : zeros,
    trainer_logprobs: call === null ? null : zeros.map(() => null),
    trainer_logprobs_after: call === null ? null : zeros,
    is_sampled_raw: false,
  };
}

function page(cursor: string | null, ...lines: [number, TokenRun[]][]): EpisodeTimelines {
  const timelines = lines.map(([index, runs]) => ({ index, agent: null, tokens: 9, runs }));
  return {
    episode: {},
    report: null,
    calls: [],
    timelines,
    next_cursor: cursor,
  } as unknown as EpisodeTimelines;
}

test("a run that was cut between two pages is one run again", () => {
  const joined = joinPages([
    page("4", [0, [run(null, 0, ["x"]), run("a", 1, ["b", "c"], { 1: "c3" })]]),
    page(
      null,
      [0, [run("a", 3, ["d"], { 0: "a9" }), run(null, 4, ["y"])]],
      [1, [run("b", 1, ["e"])]],
    ),
  ]);
  expect(
    joined.timelines.map((line) => line.runs.map((each) => [each.call, each.start, each.text])),
  ).toEqual([
    [
      [null, 0, "x"],
      ["a", 1, "bcd"],
      [null, 4, "y"],
    ],
    [["b", 1, "e"]],
  ]);
  expect(joined.timelines[0]?.runs[1]).toMatchObject({
    tokens: 3,
    raw_logprobs: [0, 0, 0],
    trainer_logprobs: [null, null, null],
    trainer_logprobs_after: [0, 0, 0],
    split_bytes: { 1: "c3", 2: "a9" },
  });
  expect(joined.next_cursor).toBeNull();
});

test("two answers beside each other stay two", () => {
  const joined = joinPages([
    page("1", [0, [run("a", 0, ["x"])]]),
    page(null, [0, [run("b", 1, ["y"])]]),
  ]);
  expect(joined.timelines[0]?.runs).toHaveLength(2);
});
