import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { GROUPS, MAIN, ownPlots } from "./plots";

// Shown otherwise: the axis, the chart of the reward, the tile beside it, what agents measured. Lists are in the record alone.
const ELSEWHERE = [
  "step",
  "reward_mean",
  "reward_p10",
  "reward_p50",
  "reward_p90",
  "reward_std",
  "metrics",
  "engine_gap_by_position",
  "engine_gap_by_probability",
];

test("every measure that the API has of a step is drawn", () => {
  const document = JSON.parse(
    readFileSync(new URL("../../../../../openapi.json", import.meta.url), "utf8"),
  ) as {
    components: { schemas: { StepMetrics: { properties: Record<string, unknown> } } };
  };
  const drawn = [...MAIN, ...GROUPS.flatMap((group) => group.plots)].flatMap((plot) =>
    plot.lines.flatMap(([, measure]) => (typeof measure === "function" ? [] : [measure as string])),
  );
  const measured = Object.keys(document.components.schemas.StepMetrics.properties);
  expect(measured.filter((name) => !drawn.includes(name) && !ELSEWHERE.includes(name))).toEqual([]);
  expect(drawn.filter((name) => !measured.includes(name))).toEqual([]);
});

test("what agents measured is drawn by its name, the parts of the reward and the rewards of agents first", () => {
  const plots = ownPlots(["reward/format", "turns", "rewards_by_agent/solver", "a/b"]);
  expect(plots.map(({ title, unit, lines }) => [title, unit, lines[0]?.[1]])).toEqual([
    ["format", "part of the reward", "metrics/reward/format"],
    ["solver", "reward of the agent", "metrics/rewards_by_agent/solver"],
    ["turns", "mean of the episodes", "metrics/turns"],
    ["a/b", "mean of the episodes", "metrics/a/b"],
  ]);
});
