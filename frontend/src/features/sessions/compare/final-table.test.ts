import { expect, test } from "vitest";
import type { MetricColumns } from "../../../api/types";
import { bestStep } from "./final-table";

function columns(
  last: (number | null)[],
  high: (number | null)[] | null,
  steps: number[],
): MetricColumns {
  return {
    axis: "step",
    x: steps,
    steps,
    columns: { reward_mean: { last, low: high, high } },
    steps_in_all: 0,
    cursor: 0,
  } as MetricColumns;
}

test("the best step is named, also of rewards below zero", () => {
  expect(bestStep(columns([-3, null, -1, -2], null, [1, 2, 3, 4]))).toEqual({
    reward: -1,
    place: "step 3",
  });
});

test("of steps that were put together the highest counts, and the stretch is said", () => {
  expect(bestStep(columns([0.2, 0.3], [0.9, 0.5], [10, 20]))).toEqual({
    reward: 0.9,
    place: "steps 1 to 10",
  });
});

test("a run without a step has no best one", () => {
  expect(bestStep(columns([], null, []))).toBeNull();
});
