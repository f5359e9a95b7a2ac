// The points of a run's curves: its steps, or of a long run the last step of each stretch that was put together, with the stretch's extremes.
import { OWN, stepsOf } from "../../api/metrics";
import type { MetricColumns, StepMetrics } from "../../api/types";
import type { Range } from "../../ui/chart-axis";

export interface Points {
  x: readonly number[];
  /** The last step of each point. */
  steps: readonly StepMetrics[];
  /** Where the extremes of points that are several steps stand; of two that have a step the later counts. */
  read: readonly MetricColumns[];
}

export function pointsOf(columns: MetricColumns | undefined): Points {
  return columns
    ? { x: columns.x, steps: stepsOf(columns), read: [columns] }
    : { x: [], steps: [], read: [] };
}

/** Of a record whose past was read at once, over its steps. */
export function recordedPoints(steps: readonly StepMetrics[], read: MetricColumns | null): Points {
  return { x: steps.map(({ step }) => step), steps, read: read ? [read] : [] };
}

/** Whether some of them are several steps. */
export function isCoarse({ read }: Points): boolean {
  return read.some(({ steps, steps_in_all: all }) => steps.length < all);
}

/** The same with finer points in a part of the axis. What came after these were read stays. */
export function withFiner(
  points: Points,
  finer: MetricColumns | undefined,
  range: Range | null,
): Points {
  const newest = finer?.x[finer.x.length - 1];
  if (!finer || !range || newest === undefined) return points;
  const rows = points.x.map((x, at) => ({ x, step: points.steps[at] as StepMetrics }));
  const within = stepsOf(finer).map((step, at) => ({ x: finer.x[at] ?? 0, step }));
  const all = [
    ...rows.filter(({ x }) => x < range.min),
    ...within,
    ...rows.filter(({ x }) => x > newest),
  ];
  return {
    x: all.map(({ x }) => x),
    steps: all.map(({ step }) => step),
    read: [...points.read, finer],
  };
}

/** The extremes of a measure in each point; none where every point is one step. */
export function extremesOf(
  { steps, read }: Points,
  name: string,
): { low: (number | null)[]; high: (number | null)[] } | null {
  if (!read.some(({ columns }) => columns[name]?.low)) return null;
  const places = new Map(
    read.flatMap((columns) =>
      columns.steps.map((step, at) => [step, { column: columns.columns[name], at }] as const),
    ),
  );
  const edge = (side: "low" | "high") =>
    steps.map(({ step }, index) => {
      const place = places.get(step);
      return place?.column?.[side]?.[place.at] ?? measured(steps[index], name);
    });
  return { low: edge("low"), high: edge("high") };
}

/** What a step measured under the name of a column. */
export function measured(step: StepMetrics | undefined, name: string): number | null {
  const value = name.startsWith(OWN)
    ? step?.metrics?.[name.slice(OWN.length)]
    : step?.[name as keyof StepMetrics];
  return typeof value === "number" ? value : null;
}

/** What agents measured themselves, by name. */
export function ownNames(steps: readonly StepMetrics[]): string[] {
  return [...new Set(steps.flatMap(({ metrics }) => Object.keys(metrics ?? {})))].sort();
}
