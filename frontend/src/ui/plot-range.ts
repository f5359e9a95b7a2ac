// The range and the ticks of an axis, bounded for every finite series. uPlot's own loops over ticks end only where each
// tick differs from the one before it: a range that is as narrow as the rounding of its ends has no such ticks.

type MinMax = [min: number, max: number];

/** Below this share of their size, the difference of two values is noise: doubles keep 1e-16 of it, sums lose some of that. */
const NOISE = 1e-9;
/** What is closer to zero is drawn as zero: the arithmetic of ticks needs digits that smaller doubles lack. */
const TINY = 1e-290;
/** What is farther from zero is drawn there: the width of a range has to be finite. */
const HUGE = 1e307;
const PAD = 0.08; // of the range, on both sides
const MOST_TICKS = 100; // in a window of any width

/** Whether a curve between the two is a flat line. */
export function isFlat(low: number, high: number): boolean {
  return high - low <= Math.max(NOISE * Math.max(Math.abs(low), Math.abs(high)), TINY);
}

/** The values as they can be drawn: numbers that are not finite are gaps. */
export function drawable(values: readonly (number | null)[]): (number | null)[] {
  return values.map((value) =>
    value === null || !Number.isFinite(value) ? null : Math.min(HUGE, Math.max(-HUGE, value)),
  );
}

/** Around values from `low` to `high`; both null: there are none. */
export function valueRange(low: number | null, high: number | null): MinMax {
  if (low === null || high === null) return [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (size <= TINY) return [0, 1]; // of most measures nothing is below zero
  const pad = isFlat(low, high) ? size * 0.1 : (high - low) * PAD;
  return [low - pad, high + pad];
}

/** The same for values above zero, by their powers of ten. */
export function powerRange(low: number | null, high: number | null): MinMax {
  if (low === null || high === null || low <= 0) return [1, 10];
  const [first, last] = [low, high].map((value) =>
    Math.min(306, Math.max(-306, Math.log10(value))),
  ) as MinMax;
  const pad = isFlat(low, high) || first === last ? 0.5 : (last - first) * PAD;
  return [10 ** Math.max(first - pad, -307), 10 ** Math.min(last + pad, 307)];
}

/** All of the axis that steps or times stand on: one of them alone still has an axis around it. An address may ask for any range. */
export function placeRange(first: number | null, last: number | null): MinMax {
  if (first === null || last === null) return [0, 10];
  const [low, high] = [first, last].map((place) =>
    Math.min(HUGE, Math.max(-HUGE, place)),
  ) as MinMax;
  if (!isFlat(low, high)) return [low, high];
  const pad = Math.max(1, Math.abs(low) * NOISE * 10);
  return [low - pad, high + pad];
}

/** Multiples of a step from `steps`, else of 1, 2 or 5 times a power of ten, so that there are about `most` at most. */
export function linearTicks(
  min: number,
  max: number,
  most: number,
  steps: readonly number[] = [],
): number[] {
  const least = (max - min) / Math.max(most, 1);
  if (!(least > 0) || !Number.isFinite(least)) return [];
  const power = 10 ** Math.floor(Math.log10(least));
  const step =
    steps.find((one) => one >= least) ??
    [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= least) ??
    10 * power;
  const first = Math.ceil(min / step);
  const count = Math.min(Math.floor(max / step) - first + 1, MOST_TICKS);
  const ticks = Array.from(
    { length: Math.max(count, 0) },
    (_, at) => Number(((first + at) * step).toPrecision(12)) + 0,
  );
  return ticks.filter((tick, at) => tick >= min && tick <= max && tick !== ticks[at - 1]);
}

/** Powers of ten, with 2 and 5 times each where there is room; ordinary ticks within less than one power. */
export function powerTicks(min: number, max: number, most: number): number[] {
  if (!(min > 0) || !(max > min) || !Number.isFinite(max)) return [];
  const [first, last] = [Math.ceil(Math.log10(min)), Math.floor(Math.log10(max))];
  const decades = Math.log10(max) - Math.log10(min);
  if (decades < 1) return linearTicks(min, max, most);
  const every = Math.max(1, Math.ceil(decades / Math.max(most, 1)));
  const digits = decades * 3 <= most ? [1, 2, 5] : [1];
  const powers = Array.from(
    { length: Math.min(Math.floor((last - first + 1) / every) + 2, MOST_TICKS) },
    (_, at) => first - 1 + at * every,
  );
  return powers
    .flatMap((power) => digits.map((digit) => Number(`${String(digit)}e${String(power)}`)))
    .filter((tick) => tick >= min && tick <= max);
}
