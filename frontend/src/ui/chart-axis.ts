// What a chart stands over, which part of that it shows, and how its values are written.
import { count, number, span } from "./format";

/** "call": calls of a model that a Tinker client trains; no choice of a run. */
export type Axis = "step" | "time" | "tokens" | "episodes" | "call";
export type RunAxis = Exclude<Axis, "call">;

export const AXES: { value: RunAxis; name: string }[] = [
  { value: "step", name: "Step" },
  { value: "time", name: "Time" },
  { value: "tokens", name: "Tokens trained" },
  { value: "episodes", name: "Episodes" },
];

export function axisOf(address: URLSearchParams): RunAxis {
  return AXES.find((axis) => axis.value === address.get("x"))?.value ?? "step";
}

/** A value of the axis with its unit: "step 12", "1 h 3 min", "20,000 tokens". */
export function axisText(axis: Axis, value: number | undefined): string {
  if (value === undefined) return "";
  if (axis === "time") return span(value);
  return axis === "step" || axis === "call"
    ? `${axis} ${number(value)}`
    : `${number(value)} ${axis}`;
}

/** A tick's label: without the unit where the axis alone says it. */
export function tickText(axis: Axis, value: number): string {
  if (axis === "time") return span(value);
  return value >= 100_000 ? count(value) : number(value);
}

/** What of the axis the charts of a page show. */
export interface Range {
  min: number;
  max: number;
}

const DIGITS = 7;

/** Of `zoom=5~12`, in the axis's own units; null where the whole range is shown, and where it cannot be read. */
export function zoomOf(address: URLSearchParams): Range | null {
  const [min, max, ...more] = (address.get("zoom") ?? "")
    .split("~")
    .map((part) => (part.trim() === "" ? NaN : Number(part)));
  if (
    min === undefined ||
    max === undefined ||
    more.length > 0 ||
    !Number.isFinite(min) ||
    !Number.isFinite(max)
  )
    return null;
  return min < max ? { min, max } : null;
}

/** The part of the address; empty for the whole range. */
export function zoomText(range: Range | null): string {
  if (!range) return "";
  const [min, max] = [range.min, range.max].map((edge) => Number(edge.toPrecision(DIGITS)));
  return min === max ? "" : `${String(min)}~${String(max)}`;
}

/** Whether two ranges look the same in a plot. */
export function isSameRange(
  one: { min?: number | undefined; max?: number | undefined },
  other: Range,
): boolean {
  const near = (other.max - other.min) / 1000;
  return (
    Math.abs((one.min ?? Infinity) - other.min) < near &&
    Math.abs((one.max ?? Infinity) - other.max) < near
  );
}
