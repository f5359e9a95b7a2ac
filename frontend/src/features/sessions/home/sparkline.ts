// A curve without axes, as the points of an SVG line.
import { drawable, isFlat } from "../../../ui/plot-range";

/** `values` over the whole width and height, the largest on top; a gap is bridged, and one value alone is a flat line. */
export function sparkPoints(
  values: readonly (number | null)[],
  width: number,
  height: number,
): string {
  const known = drawable(values).flatMap((value, at) => (value === null ? [] : [{ at, value }]));
  const [first] = known;
  if (!first) return "";
  const low = Math.min(...known.map((point) => point.value));
  const high = Math.max(...known.map((point) => point.value));
  const last = values.length - 1;
  const place = ({ at, value }: { at: number; value: number }) => {
    const y = isFlat(low, high) ? height / 2 : height - ((value - low) / (high - low)) * height;
    return `${round(last === 0 ? 0 : (at / last) * width)},${round(y)}`;
  };
  return known.length === 1
    ? `0,${round(height / 2)} ${round(width)},${round(height / 2)}`
    : known.map(place).join(" ");
}

function round(value: number): string {
  return String(Number(value.toFixed(1)));
}
