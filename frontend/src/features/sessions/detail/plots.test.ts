import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { GROUPS, REWARD } from "./plots";

// Shown otherwise: the axis, the band behind the reward, and the tile beside it.
const ELSEWHERE = ["step", "reward_p10", "reward_p50", "reward_p90", "reward_std"];

test("every measure that the API has of a step is drawn", () => {
  const document = JSON.parse(readFileSync(new URL("../../../../../openapi.json", import.meta.url), "utf8")) as {
    components: { schemas: { StepMetrics: { properties: Record<string, unknown> } } };
  };
  const drawn = [REWARD, ...GROUPS.flatMap((group) => group.plots)].flatMap((plot) => plot.lines.flatMap(([, measure]) => (typeof measure === "function" ? [] : [measure as string])));
  const measured = Object.keys(document.components.schemas.StepMetrics.properties);
  expect(measured.filter((name) => !drawn.includes(name) && !ELSEWHERE.includes(name))).toEqual([]);
  expect(drawn.filter((name) => !measured.includes(name))).toEqual([]);
});
