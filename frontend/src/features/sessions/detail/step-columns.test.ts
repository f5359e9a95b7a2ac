import { expect, test } from "vitest";
import type { Evaluation, MetricColumns, StepMetrics } from "../../../api/types";
import { GROUPS, MAIN } from "./plots";
import { pointsOf, recordedPoints, type Points } from "../points";
import {
  constantsOf,
  lines,
  measuredPlots,
  noGradientText,
  rewardChart,
  tokensPerSecond,
} from "./step-columns";

const step = (over: Partial<StepMetrics>) =>
  ({
    step: 1,
    groups: 4,
    groups_skipped: 0,
    reward_p10: 0,
    reward_p90: 1,
    metrics: {},
    ...over,
  }) as StepMetrics;
const points = (...steps: StepMetrics[]): Points => recordedPoints(steps, null);
const played = (name: string, at: number, reward_mean: number) =>
  ({ name, step: at, reward_mean }) as Evaluation;

const long = {
  axis: "step",
  x: [5, 10],
  steps: [5, 10],
  steps_in_all: 10,
  cursor: 1,
  columns: {
    reward_mean: { last: [0.4, 0.9942], low: [0.1, 0.2], high: [0.5, 1] },
    "metrics/turns": { last: [3, null], low: [2, 4], high: [3, 4] },
  },
} satisfies MetricColumns;

test("a measure that a step lacks is a gap, not a zero", () => {
  const [entropy] = lines(points(step({ entropy: 2 }), step({ step: 2 })), [
    ["entropy", "entropy"],
  ]);
  expect(entropy?.values).toEqual([2, null]);
});

test("only a step in which no group has a gradient is said to teach nothing", () => {
  expect(noGradientText(undefined)).toBeNull();
  expect(noGradientText(step({ groups_skipped: 3 }))).toBeNull();
  expect(noGradientText(step({ step: 9, groups_skipped: 4 }))).toMatch(
    /^Step 9 taught nothing. All 4 groups had equal rewards/,
  );
});

test("the reward of training and of each set of evaluations share an axis, and the last of a repeated one counts", () => {
  const trained = points(
    step({ step: 1, reward_mean: 0.3, reward_p10: null }),
    step({ step: 4, reward_mean: 0.5 }),
  );
  const { x, series, steps } = rewardChart(
    trained,
    [
      played("easy", 4, 0.5),
      played("easy", 0, 0.2),
      played("hard", 4, 0.1),
      played("easy", 4, 0.6),
    ],
    "step",
  );
  expect(x).toEqual([0, 1, 4]);
  expect(steps).toEqual([0, 1, 4]);
  expect(series.map((one) => [one.label, one.values])).toEqual([
    ["training", [null, 0.3, 0.5]],
    ["easy", [0.2, null, 0.6]],
    ["hard", [null, null, 0.1]],
  ]);
  expect([series[0]?.low, series[0]?.high]).toEqual([
    [null, null, 0],
    [null, 1, 1],
  ]);
  expect(rewardChart(trained, [], "step").series.map(({ label }) => label)).toEqual(["reward"]);
});

test("on another axis an evaluation stands where its step does, and adds no place", () => {
  const tokens: Points = {
    ...points(step({ step: 1, reward_mean: 0.3 }), step({ step: 2, reward_mean: 0.5 })),
    x: [100, 250],
  };
  const { x, series, steps } = rewardChart(tokens, [played("easy", 2, 0.4)], "tokens");
  expect([x, steps, series[1]?.values]).toEqual([
    [100, 250],
    [1, 2],
    [null, 0.4],
  ]);
});

test("a point of several steps is its last step, in front of the extremes of all", () => {
  const { series } = rewardChart(pointsOf(long), [], "step");
  expect(series[0]).toMatchObject({ values: [0.4, 0.9942], low: [0.1, 0.2], high: [0.5, 1] });
  const [turns] = lines(pointsOf(long), [["turns", "metrics/turns"]]);
  expect(turns).toMatchObject({ values: [3, null], low: [2, 4], high: [3, 4], isSparse: true });
});

test("a smoothed curve keeps what was measured", () => {
  const measured = points(...[0, 1, 0, 1].map((loss, at) => step({ step: at, loss })));
  const [loss] = lines(measured, [["loss", "loss"]], 0.9);
  expect(loss?.raw).toEqual([0, 1, 0, 1]);
  expect(loss?.values).not.toEqual(loss?.raw);
  expect(lines(measured, [["loss", "loss"]])[0]?.raw).toBeUndefined();
});

test("what never moves has a value and no chart, and a peak within a point is a movement", () => {
  const of = (values: (number | null)[], more = {}) => ({
    label: "a",
    colour: "",
    values,
    ...more,
  });
  expect(constantsOf([of([3e-5, 3e-5, 3e-5 * (1 + 2e-16)])])).toEqual([["a", 3e-5]]);
  expect(constantsOf([of([null, null])])).toBeNull();
  expect(constantsOf([of([1])])).toBeNull();
  expect(constantsOf([of([1, 1]), of([1, 2])])).toBeNull();
  expect(constantsOf([of([1, 1], { low: [1, 1], high: [1, 9] })])).toBeNull();
  expect(constantsOf([of([1, 1.5], { raw: [1, 2] })])).toBeNull();
});

test("what no step has a value of is no plot, and no line of one", () => {
  const plots = [...MAIN, ...GROUPS.flatMap((group) => group.plots)];
  const known = {
    loss: 1,
    engine_gap_max: 0.5,
    expert_load: null,
    tokens_trained: 3,
    rollout_s: 1,
    train_s: 1,
    handover_s: 1,
  };
  const titles = (of: Points) =>
    measuredPlots(plots, of).map(
      ({ title, lines: left }) => `${title}: ${left.map(([label]) => label).join(", ")}`,
    );
  expect(titles(points(step({ expert_load: null }), step(known)))).toEqual([
    "Loss: loss",
    "Largest gap: gap",
    "Groups: all, equal rewards",
    "Tokens: trained",
    "Step time: rollout, train, handover",
    "Tokens per second: tokens/s",
  ]);
  expect(measuredPlots(plots, points())).toEqual(plots);
});

test("of a stretch whose last step lacks a measure the others count", () => {
  const one = {
    ...long,
    columns: {
      loss: { last: [null, null], low: [0.1, null], high: [0.2, null] },
      entropy: { last: [null, null], low: [null, null], high: [null, null] },
    },
  };
  expect(measuredPlots(MAIN, pointsOf(one as MetricColumns)).map(({ title }) => title)).toEqual([
    "Loss",
  ]);
});

test("tokens per second are those of the whole step, and none where it took no time", () => {
  const one = step({ tokens_trained: 300, rollout_s: 1, train_s: 1.5, handover_s: 0.5 });
  expect(tokensPerSecond(one)).toBe(100);
  expect(tokensPerSecond({ ...one, rollout_s: 0, train_s: 0, handover_s: 0 })).toBeNull();
  expect(lines(points(one), [["tokens/s", tokensPerSecond]])[0]?.values).toEqual([100]);
});
