import { expect, test } from "vitest";
import type { EpisodeOutline } from "../../../api/types";
import {
  endOf,
  nearestStretch,
  nextStretch,
  numberOf,
  placeOf,
  startFor,
  stretchHeat,
  stretchOf,
  wholeScale,
} from "./outline";
import { firstWhere } from "./minimap";

const OUTLINE: EpisodeOutline = {
  timelines: [7, 0, 5],
  width: 2,
  surprising: [null, 3, null, 6, 9, 11],
  logprobs: [null, -0.1, null, -9, -2, -0.6],
  advantages: [null, 0.5, null, -2, 0.5, null],
  versions: [null, 4, null, 4, 7, 7],
  ratios: [null, 1, null, 2, 0.84, null],
  changes: [null, 0, null, 0.5, -0.1, null],
};

test("a place in a timeline and a number in the episode are one another", () => {
  expect([0, 6, 7, 11].map((number) => placeOf(OUTLINE, number))).toEqual([
    { line: 0, token: 0 },
    { line: 0, token: 6 },
    { line: 2, token: 0 },
    { line: 2, token: 4 },
  ]);
  for (let number = 0; number < 12; number++)
    expect(numberOf(OUTLINE, placeOf(OUTLINE, number))).toBe(number);
  expect([-5, 0, 3, 11, 99].map((number) => stretchOf(OUTLINE, number))).toEqual([0, 0, 1, 5, 5]);
});

test("moves go to stretches with a sampled token, or to strong ones, and stop at the ends", () => {
  expect([
    nextStretch(OUTLINE, -1, 1),
    nextStretch(OUTLINE, 1, 1),
    nextStretch(OUTLINE, 1, -1),
    nextStretch(OUTLINE, 6, -1),
  ]).toEqual([1, 3, null, 5]);
  expect(nextStretch(OUTLINE, 0, 1, (at) => (OUTLINE.logprobs[at] ?? 0) < -5)).toBe(3);
  expect([0, 1, 2, 5].map((at) => nearestStretch(OUTLINE, at))).toEqual([1, 1, 1, 5]);
  expect(nearestStretch({ ...OUTLINE, surprising: [null, null] }, 0)).toBeNull();
});

test("a stretch has the colour of its strongest token, by each measure", () => {
  const scale = wholeScale(OUTLINE, {
    advantage: 0,
    versions: [4],
    ratios: false,
    change: 0.2,
    loss: null,
    lossInAll: null,
  });
  expect(scale).toMatchObject({
    advantage: 2,
    versions: [4, 7],
    ratios: true,
    change: 0.5,
    lossInAll: null,
  });
  const heats = (
    measure: "logprob" | "advantage" | "ratio" | "change" | "loss" | "version" | "none",
  ) => OUTLINE.surprising.map((_, at) => stretchHeat(OUTLINE, at, measure, scale));
  expect(heats("logprob")).toEqual([undefined, undefined, undefined, "s5", "s2", "s1"]);
  expect(heats("advantage")).toEqual([undefined, "g1", undefined, "b5", "g1", undefined]);
  expect(heats("change")).toEqual([undefined, undefined, undefined, "g5", "b1", undefined]);
  expect(heats("ratio")).toEqual([undefined, undefined, undefined, "g5", "b2", undefined]);
  expect(heats("loss").filter((heat) => heat?.endsWith("5"))).toHaveLength(1);
  expect(heats("version")).toEqual([undefined, "v0", undefined, "v0", "v1", "v1"]);
  expect(heats("none")).toEqual(Array(6).fill(undefined));
});

test("a token that is not loaded is loaded with some before it, and one at the beginning with the beginning", () => {
  expect(startFor(null, 400, 900, 5000)).toBe(400);
  expect(startFor(500, 400, 900, 5000)).toBe(400);
  expect(startFor(900_000, 0, 5000, 5000)).toBe(899_700);
  expect(startFor(4999, 899_700, 904_700, 5000)).toBe(0);
  expect(startFor(20_000, 899_700, Infinity, 5000)).toBe(19_700);
  expect([
    endOf([{ next_cursor: "5000" }, { next_cursor: "9000" }]),
    endOf([{ next_cursor: null }]),
  ]).toEqual([9000, Infinity]);
});

test("the first item in view is found by halves", () => {
  const items = Array.from({ length: 1000 }, (_, at) => at);
  for (const from of [0, 1, 500, 999, 1000]) {
    let looked = 0;
    expect(firstWhere(items, (item) => (looked++, item >= from))).toBe(from);
    expect(looked).toBeLessThan(12);
  }
  expect(firstWhere([], () => true)).toBe(0);
});
