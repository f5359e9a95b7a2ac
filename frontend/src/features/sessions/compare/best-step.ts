// The best reward of a run, out of columns that may have put steps together.
import type { MetricColumns } from "../../../api/types";

/** The highest mean reward of one step, and where it was: a stretch where steps were put together. */
export function bestStep({
  columns,
  steps,
}: MetricColumns): { reward: number; place: string } | null {
  const column = columns.reward_mean;
  if (!column) return null;
  const values = column.high ?? column.last;
  let best = -1;
  values.forEach((value, at) => {
    if (value !== null && (best < 0 || value > (values[best] ?? -Infinity))) best = at;
  });
  const reward = values[best];
  if (reward === null || reward === undefined) return null;
  const last = steps[best] ?? 0;
  const first = (steps[best - 1] ?? 0) + 1;
  return {
    reward,
    place:
      column.high && first < last
        ? `steps ${String(first)} to ${String(last)}`
        : `step ${String(last)}`,
  };
}
