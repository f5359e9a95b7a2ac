// Columns as uPlot takes them, and how far of them is shown.
import type uPlot from "uplot";
import { drawable } from "./plot-range";

export interface Series {
  label: string;
  values: (number | null)[];
  /** CSS variable of its colour, e.g. "--series-1". */
  colour: string;
}

export interface Band {
  low: (number | null)[];
  high: (number | null)[];
}

/** x, then the lower and upper edge of the band if there is one, then the lines. */
export function alignedData(x: number[], series: Series[], band?: Band): uPlot.AlignedData {
  return [x, ...[...(band ? [band.low, band.high] : []), ...series.map((one) => one.values)].map(drawable)];
}

/** What an axis of powers can show: other values are gaps. */
export function positive(series: readonly Series[]): Series[] {
  return series.map((one) => ({ ...one, values: one.values.map((value) => (value !== null && value > 0 ? value : null)) }));
}

/**
 * Whether the user has zoomed in: the shown range is narrower than the data was when the range was set. New points
 * then must not move it, or a zoom would end at the next step.
 */
export function isZoomed(shown: { min?: number | undefined; max?: number | undefined }, x: readonly number[]): boolean {
  const first = x[0];
  const last = x[x.length - 1];
  if (first === undefined || last === undefined || shown.min === undefined || shown.max === undefined) return false;
  return shown.min > first || shown.max < last;
}

/** What a zoom shows once the data goes on to another last x: a zoom that ends at the newest point follows it. */
export function zoomOver(shown: { min?: number | undefined; max?: number | undefined }, before: readonly number[], x: readonly number[]): { min: number; max: number } {
  const { min = 0, max = 0 } = shown;
  const last = before[before.length - 1] ?? max;
  return { min, max: max < last ? max : Math.max(max, x[x.length - 1] ?? max) };
}

/** Curves that have each their own x, over all of these together: where a curve has no point it has a gap. */
export function overlaid(curves: readonly { x: readonly number[]; values: readonly (number | null)[] }[]): { x: number[]; columns: (number | null)[][] } {
  const x = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const columns = curves.map((curve) => {
    const at = new Map(curve.x.map((place, index) => [place, curve.values[index] ?? null]));
    return x.map((place) => at.get(place) ?? null);
  });
  return { x, columns };
}

/** The value at an index, or the last one before it: what a curve with gaps stands at there. */
export function valueAt(values: readonly (number | null)[], index: number): number | null {
  for (let at = index; at >= 0; at -= 1) {
    const value = values[at];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
