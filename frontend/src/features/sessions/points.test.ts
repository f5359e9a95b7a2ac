import { expect, test } from "vitest";
import type { MetricColumns, StepMetrics } from "../../api/types";
import {
  extremesOf,
  isCoarse,
  measured,
  ownNames,
  pointsOf,
  recordedPoints,
  withFiner,
} from "./points";

function columns(
  steps: number[],
  all: number,
  low: (number | null)[] | null = null,
): MetricColumns {
  const loss = { last: steps, low, high: low && steps.map((step) => step + 1) };
  return { axis: "step", x: steps, steps, steps_in_all: all, cursor: 1, columns: { loss } };
}

test("finer points take the place of coarse ones within their part, and later steps stay", () => {
  const live = { step: 25, loss: 25 } as unknown as StepMetrics;
  const coarse = recordedPoints(
    [...pointsOf(columns([10, 20], 20)).steps, live],
    columns([10, 20], 20, [1, 11]),
  );
  expect(isCoarse(coarse)).toBe(true);
  const shown = withFiner(coarse, columns([12, 14, 16], 6, [11, 13, 15]), { min: 11, max: 16.5 });
  expect(shown.x).toEqual([10, 12, 14, 16, 20, 25]);
  expect(extremesOf(shown, "loss")).toEqual({
    low: [1, 11, 13, 15, 11, 25],
    high: [11, 13, 15, 17, 21, 25],
  });
  expect(withFiner(coarse, undefined, { min: 11, max: 16 })).toBe(coarse);
  expect(withFiner(coarse, columns([], 0), { min: 11, max: 16 })).toBe(coarse);
});

test("points that are single steps have no extremes", () => {
  expect(extremesOf(pointsOf(columns([1, 2], 2)), "loss")).toBeNull();
  expect(isCoarse(pointsOf(columns([1, 2], 2)))).toBe(false);
  expect(pointsOf(undefined).x).toEqual([]);
});

test("what agents measured is read by its name, of a step recorded before there was any too", () => {
  const step = { step: 1, loss: 2, metrics: { "reward/format": 0.5 } } as unknown as StepMetrics;
  expect([
    measured(step, "loss"),
    measured(step, "metrics/reward/format"),
    measured(step, "metrics/turns"),
  ]).toEqual([2, 0.5, null]);
  expect(ownNames([step, { step: 2 } as unknown as StepMetrics])).toEqual(["reward/format"]);
});
