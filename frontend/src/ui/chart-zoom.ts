// What of the axis the charts of a page show, as a part of its address: a link shows the same range.

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
