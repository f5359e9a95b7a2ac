import { expect, test } from "vitest";
import type { Evaluation, StepMetrics } from "../../../api/types";
import { evaluationColumns, lines, noGradientText, rewardBand, tokensPerSecond } from "./step-columns";

const step = (over: Partial<StepMetrics>) => ({ step: 1, groups: 4, groups_skipped: 0, reward_p10: 0, reward_p90: 1, ...over }) as StepMetrics;

test("the reward's band is what episodes earned, and is missing where it was not recorded", () => {
  const steps = [step({ reward_p10: null, reward_p90: null }), step({ reward_p10: 0, reward_p90: 1 })];
  expect(rewardBand(steps)).toEqual({ low: [null, 0], high: [null, 1] });
});

test("a measure that a step lacks is a gap, not a zero", () => {
  const [entropy] = lines([step({ entropy: 2 }), step({})], [["entropy", "entropy"]]);
  expect(entropy?.values).toEqual([2, null]);
});

test("only a step in which no group has a gradient is said to teach nothing", () => {
  expect(noGradientText(undefined)).toBeNull();
  expect(noGradientText(step({ groups_skipped: 3 }))).toBeNull();
  expect(noGradientText(step({ step: 9, groups_skipped: 4 }))).toMatch(/^Step 9 taught nothing. All 4 groups had equal rewards/);
});

test("each set of an evaluation is a line over all steps, and the last of a repeated one counts", () => {
  const played = (name: string, at: number, reward_mean: number) => ({ name, step: at, reward_mean }) as Evaluation;
  const { x, series } = evaluationColumns([played("easy", 4, 0.5), played("easy", 0, 0.2), played("hard", 4, 0.1), played("easy", 4, 0.6)]);
  expect(x).toEqual([0, 4]);
  expect(series.map((one) => [one.label, one.values])).toEqual([
    ["easy", [0.2, 0.6]],
    ["hard", [null, 0.1]],
  ]);
});

test("tokens per second are those of the whole step, and none where it took no time", () => {
  const step = { tokens_trained: 300, rollout_s: 1, train_s: 1.5, handover_s: 0.5 } as StepMetrics;
  expect(tokensPerSecond(step)).toBe(100);
  expect(tokensPerSecond({ ...step, rollout_s: 0, train_s: 0, handover_s: 0 })).toBeNull();
  expect(lines([step], [["tokens/s", tokensPerSecond]])[0]?.values).toEqual([100]);
});
