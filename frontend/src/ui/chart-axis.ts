// What a chart stands over, and how its values are written.
import { number, span } from "./format";

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
  return value >= 100_000
    ? new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(
        value,
      )
    : number(value);
}
