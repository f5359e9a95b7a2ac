import { expect, test } from "vitest";
import { columnsIn, measureOfEpisode, measuresOf, withColumn } from "./own-columns";

const episode = {
  metrics: { turns: 3, "reward/format": 0.5 },
  rewards_by_agent: { "solver, the": 1 },
};

test("what was measured of an episode is read by the names that the API takes", () => {
  expect(measuresOf([episode, { metrics: {}, rewards_by_agent: null }])).toEqual([
    "reward/format",
    "rewards_by_agent/solver, the",
    "turns",
  ]);
  expect(
    ["turns", "rewards_by_agent/solver, the", "rewards_by_agent/turns", "other", "toString"].map(
      (name) => measureOfEpisode(episode, name),
    ),
  ).toEqual([3, 1, null, null, null]);
});

test("columns stand in the address, and one that is chosen again goes", () => {
  const one = withColumn(new URLSearchParams("sort=best"), "rewards_by_agent/solver, the");
  expect(columnsIn(one)).toEqual(["rewards_by_agent/solver, the"]);
  expect(columnsIn(withColumn(one, "turns"))).toEqual(["rewards_by_agent/solver, the", "turns"]);
  expect(withColumn(one, "rewards_by_agent/solver, the").toString()).toBe("sort=best");
  expect(
    ["{}", "[1]", "x"].map((text) => columnsIn(new URLSearchParams({ columns: text }))),
  ).toEqual([[], [], []]);
});
