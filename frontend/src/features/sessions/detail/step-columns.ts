// The steps of a run as columns for its charts, and what a reader should know of a step that taught nothing.
import type { Evaluation, StepMetrics } from "../../../api/types";
import type { Band, Series } from "../../../ui/chart-data";

export type Measure = Exclude<keyof StepMetrics, "step">;

/** Made of several measures of a step. */
export type Derived = (step: StepMetrics) => number | null;

/** Label, measure and colour of each line of a chart. */
export type Line = readonly [label: string, measure: Measure | Derived, colour?: string];

export function lines(steps: readonly StepMetrics[], wanted: readonly Line[]): Series[] {
  return wanted.map(([label, measure, colour = "--series-1"]) => {
    const valueOf = typeof measure === "function" ? measure : (step: StepMetrics) => step[measure] ?? null;
    return { label, values: steps.map(valueOf), colour };
  });
}

/** Tokens that were trained, by the time of the whole step: rollout, training and hand-over. */
export function tokensPerSecond({ tokens_trained: tokens, rollout_s, train_s, handover_s }: StepMetrics): number | null {
  const took = rollout_s + train_s + handover_s;
  return took > 0 ? tokens / took : null;
}

/** From the tenth to the ninetieth percentile of the episodes' rewards. */
export function rewardBand(steps: readonly StepMetrics[]): Band {
  return { low: steps.map((step) => step.reward_p10 ?? null), high: steps.map((step) => step.reward_p90 ?? null) };
}

/** Why the latest step taught nothing but its KL term, in words; null when it has a gradient of rewards. */
export function noGradientText(last: StepMetrics | undefined): string | null {
  if (!last || last.groups === 0 || last.groups_skipped < last.groups) return null;
  const groups = last.groups === 1 ? "Its only group" : `All ${String(last.groups)} groups`;
  return `Step ${String(last.step)} taught nothing. ${groups} had equal rewards, so there was no gradient: try harder or easier tasks, a higher temperature, larger groups, or a reward with steps between its ends.`;
}

const COLOURS = ["--series-1", "--series-2", "--series-3"];

/** Mean rewards of evaluations: a line for each set over the steps at which any was played. Of a repeated one the last counts. */
export function evaluationColumns(evaluations: readonly Evaluation[]): { x: number[]; series: Series[] } {
  const x = [...new Set(evaluations.map((one) => one.step))].sort((a, b) => a - b);
  const names = [...new Set(evaluations.map((one) => one.name))];
  const series = names.map((label, at) => {
    const byStep = new Map(evaluations.filter((one) => one.name === label).map((one) => [one.step, one.reward_mean]));
    return { label, values: x.map((step) => byStep.get(step) ?? null), colour: COLOURS[at % COLOURS.length] ?? "--series-1" };
  });
  return { x, series };
}
