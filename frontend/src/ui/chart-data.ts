// Columns as uPlot takes them, and how far of them is shown.
import type uPlot from "uplot";
import { drawable } from "./plot-range";

export interface Series {
  label: string;
  values: (number | null)[];
  /** CSS variable of its colour, e.g. "--series-1". */
  colour: string;
  /** What was measured, where `values` are smoothed: drawn faintly, and what is read off. */
  raw?: (number | null)[];
  /** The edges of a shaded range behind it: of each point. */
  low?: (number | null)[] | undefined;
  high?: (number | null)[] | undefined;
  /** Whether it has points at few places of the axis: its line leads over the gaps. */
  isSparse?: boolean;
}

/**
 * x, then of each series what stands behind its line, and the line: as `linesOf` names them. Each has a column of what
 * was measured, empty where it is not smoothed: a plot that has one is not made anew when smoothing begins or ends.
 */
export function alignedData(x: number[], series: readonly Series[]): uPlot.AlignedData {
  const columns = series.flatMap(({ values, raw, low, high }) => [
    ...(low && high ? [low, high] : []),
    raw ?? values.map(() => null),
    values,
  ]);
  return [x, ...columns.map(drawable)];
}

/** What a plot has to know of a series to draw it. */
export interface Line {
  label: string;
  colour: string;
  hasRange: boolean;
  isSparse: boolean;
}

export function linesOf(series: readonly Series[]): Line[] {
  return series.map(({ label, colour, low, high, isSparse = false }) => ({
    label,
    colour,
    hasRange: Boolean(low && high),
    isSparse,
  }));
}

/** What an axis of powers can show: other values are gaps. */
export function positive(series: readonly Series[]): Series[] {
  const above = (values: readonly (number | null)[]) =>
    values.map((value) => (value !== null && value > 0 ? value : null));
  return series.map((one) => ({
    ...one,
    values: above(one.values),
    ...(one.raw && { raw: above(one.raw) }),
    // The lower edge of a range that reaches below zero is its upper one: there it has no width.
    ...(one.low &&
      one.high && {
        low: above(
          one.low.map((low, at) => (low !== null && low > 0 ? low : (one.high?.[at] ?? null))),
        ),
        high: above(one.high),
      }),
  }));
}

/**
 * Whether the user has zoomed in: the shown range is narrower than the data was when the range was set. New points
 * then must not move it, or a zoom would end at the next step.
 */
export function isZoomed(
  shown: { min?: number | undefined; max?: number | undefined },
  x: readonly number[],
): boolean {
  const first = x[0];
  const last = x[x.length - 1];
  if (
    first === undefined ||
    last === undefined ||
    shown.min === undefined ||
    shown.max === undefined
  )
    return false;
  return shown.min > first || shown.max < last;
}

/** What a zoom shows once the data goes on to another last x: a zoom that ends at the newest point follows it. */
export function zoomOver(
  shown: { min?: number | undefined; max?: number | undefined },
  before: readonly number[],
  x: readonly number[],
): { min: number; max: number } {
  const { min = 0, max = 0 } = shown;
  const last = before[before.length - 1] ?? max;
  return { min, max: max < last ? max : Math.max(max, x[x.length - 1] ?? max) };
}

/** Curves that have each their own x, over all of these together: where a curve has no point it has a gap. */
export function overlaid(
  curves: readonly { x: readonly number[]; values: readonly (number | null)[] }[],
): { x: number[]; columns: (number | null)[][] } {
  const x = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const columns = curves.map((curve) => {
    const at = new Map(curve.x.map((place, index) => [place, curve.values[index] ?? null]));
    return x.map((place) => at.get(place) ?? null);
  });
  return { x, columns };
}

/** What a curve stands at: its value, and the index that it is of. */
export interface Reading {
  value: number;
  at: number;
}

/** At an index, or of the last point before it; null before the first, and after the last: a curve says nothing beyond its end. */
export function readingAt(values: readonly (number | null)[], index: number): Reading | null {
  const last = values.findLastIndex((value) => value !== null);
  return index > last ? null : lastReading(values.slice(0, index + 1));
}

export function lastReading(values: readonly (number | null)[]): Reading | null {
  const at = values.findLastIndex((value) => value !== null);
  return at < 0 ? null : { value: values[at] ?? 0, at };
}
