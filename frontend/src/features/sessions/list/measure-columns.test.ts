import { expect, test } from "vitest";
import type { Session } from "../../../api/types";
import { measureOf, measuresOf, measureTitle } from "./measure-columns";

test("what agents measured comes first among the columns that a list can have", () => {
  const sessions: Pick<Session, "measures">[] = [
    { measures: { loss: 0.5, reward_mean: 1, "metrics/turns": 3 } },
    { measures: { "metrics/reward/format": 1 } },
    { measures: null },
  ];
  expect(measuresOf(sessions)).toEqual(["metrics/reward/format", "metrics/turns", "loss"]);
  expect(measuresOf(sessions).map(measureTitle)).toEqual(["reward/format", "turns", "loss"]);
});

test("what a run did not measure, or an address made up, has no value", () => {
  expect([
    measureOf({ measures: { loss: 0 } }, "loss"),
    measureOf({ measures: { loss: 0 } }, "toString"),
    measureOf({ measures: null }, "loss"),
  ]).toEqual([0, null, null]);
});
