// The steps of a run as the curves of its charts, and what a reader should know of a step that taught nothing.
import { OWN } from "../../../api/metrics";
import type { Evaluation, StepMetrics } from "../../../api/types";
import type { Axis } from "../../../ui/chart-axis";
import { overlaid, type Series } from "../../../ui/chart-data";
import { isFlat } from "../../../ui/plot-range";
import { smoothed } from "../../../ui/smoothing";
import { extremesOf, isCoarse, measured, type Points } from "../points";
import { placeOf } from "./run-markers";

export type Measure = Exclude<keyof StepMetrics, "step" | "metrics"> | `metrics/${string}`;

/** Made of several measures of a step. */
type Derived = (step: StepMetrics) => number | null;

/** Label, measure and colour of each line of a chart. */
export type Line = readonly [label: string, measure: Measure | Derived, colour?: string];

/** `weight`: how much they are smoothed. What agents measured may be in few steps: its line leads over the gaps. */
export function lines(points: Points, wanted: readonly Line[], weight = 0): Series[] {
  return wanted.map(([label, measure, colour = "--series-1"]) => {
    const raw = points.steps.map((step) =>
      typeof measure === "function" ? measure(step) : measured(step, measure),
    );
    const extremes = typeof measure === "string" ? extremesOf(points, measure) : null;
    const isOwn = typeof measure === "string" && measure.startsWith(OWN);
    return {
      label,
      colour,
      ...lineOf(raw, weight),
      ...extremes,
      ...(isOwn && { isSparse: raw.includes(null) }),
    };
  });
}

/** What of the plots some step has a value of: a line that never had one is left out, and so is a plot without a line. Before the first step all. */
export function measuredPlots<T extends { lines: readonly Line[] }>(
  plots: readonly T[],
  points: Points,
): T[] {
  if (points.steps.length === 0) return [...plots];
  const isMeasured = ([, measure]: Line) =>
    points.steps.some(
      (step) => (typeof measure === "function" ? measure(step) : measured(step, measure)) !== null,
    ) ||
    (typeof measure === "string" &&
      (extremesOf(points, measure)?.low.some((value) => value !== null) ?? false));
  return plots
    .map((plot) => ({ ...plot, lines: plot.lines.filter(isMeasured) }))
    .filter(({ lines: left }) => left.length > 0);
}

function lineOf(raw: (number | null)[], weight: number): Pick<Series, "values" | "raw"> {
  return weight > 0 ? { values: smoothed(raw, weight), raw } : { values: raw };
}

/** Tokens that were trained, by the time of the whole step: rollout, training and hand-over. */
export function tokensPerSecond({
  tokens_trained: tokens,
  rollout_s,
  train_s,
  handover_s,
}: StepMetrics): number | null {
  const took = rollout_s + train_s + handover_s;
  return took > 0 ? tokens / took : null;
}

/** Why the latest step taught nothing but its KL term, in words; null when it has a gradient of rewards. */
export function noGradientText(last: StepMetrics | undefined): string | null {
  if (!last || last.groups === 0 || last.groups_skipped < last.groups) return null;
  const groups = last.groups === 1 ? "Its only group" : `All ${String(last.groups)} groups`;
  return `Step ${String(last.step)} taught nothing. ${groups} had equal rewards, so there was no gradient: try harder or easier tasks, a higher temperature, larger groups, or a reward with steps between its ends.`;
}

const HELD_OUT = ["--series-3", "--series-4", "--series-2", "--series-7"];

interface RewardChart {
  unit: string;
  x: number[];
  series: Series[];
  /** The step at each place of the axis; 0: before the first. */
  steps: number[];
}

/** The reward of training with that of each set of evaluations on one axis. Of a repeated evaluation the last counts. */
export function rewardChart(
  points: Points,
  evaluations: readonly Evaluation[],
  axis: Axis,
  weight = 0,
): RewardChart {
  const raw = points.steps.map((step) => step.reward_mean);
  const edges = isCoarse(points)
    ? extremesOf(points, "reward_mean")
    : {
        low: points.steps.map((step) => step.reward_p10),
        high: points.steps.map((step) => step.reward_p90),
      };
  const places = { steps: points.steps.map(({ step }) => step), x: points.x };
  const sets = [...new Set(evaluations.map(({ name }) => name))];
  const played = sets.map((name) => {
    const rewards = new Map<number, number>();
    for (const one of evaluations) {
      const place = axis === "step" ? one.step : placeOf(one.step, axis, places);
      if (one.name === name && place !== null && points.x.length > 0)
        rewards.set(place, one.reward_mean);
    }
    return { x: [...rewards.keys()], values: [...rewards.values()] };
  });
  const own = [
    raw,
    lineOf(raw, weight).values,
    edges?.low ?? [],
    edges?.high ?? [],
    places.steps,
  ].map((values) => ({ x: points.x, values }));
  const { x, columns } = overlaid([...own, ...played]);
  const [raws = [], values = [], low = [], high = [], steps = [], ...rewards] = columns;
  const trained: Series = {
    label: sets.length > 0 ? "training" : "reward",
    colour: "--series-1",
    values,
    ...(weight > 0 && { raw: raws }),
    ...(edges && { low, high }),
  };
  const heldOut = sets.map((label, at): Series => ({
    label,
    colour: HELD_OUT[at % HELD_OUT.length] ?? "--series-3",
    values: rewards[at] ?? [],
    isSparse: true,
  }));
  return {
    unit: isCoarse(points) ? "mean of the step" : "mean, 10th to 90th percentile",
    x,
    series: [trained, ...heldOut],
    steps: steps.map((step, at) => step ?? (axis === "step" ? (x[at] ?? 0) : 0)),
  };
}

/** The one value of all of a chart's curves; null where one of them moves, and of a single point. */
export function constantsOf(series: readonly Series[]): [label: string, value: number][] | null {
  const constants = series.map(({ label, values, raw, low, high }): [string, number] | null => {
    const known = [...(raw ?? values), ...(low ?? []), ...(high ?? [])].filter(
      (value) => value !== null,
    );
    const [first] = known;
    if (first === undefined) return null;
    const [least, most] = [
      known.reduce((some, value) => Math.min(some, value)),
      known.reduce((some, value) => Math.max(some, value)),
    ];
    return values.length > 1 && isFlat(least, most) ? [label, first] : null;
  });
  return constants.includes(null) ? null : (constants as [string, number][]);
}
