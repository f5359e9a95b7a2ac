// A curve without axes, as the points of an SVG line.

/** `values` over the whole width and height, the largest on top; a gap is bridged, and one value alone is a flat line. */
export function sparkPoints(values: readonly (number | null)[], width: number, height: number): string {
  const known = values.flatMap((value, at) => (value === null ? [] : [{ at, value }]));
  const [first] = known;
  if (!first) return "";
  const low = Math.min(...known.map((point) => point.value));
  const range = Math.max(...known.map((point) => point.value)) - low;
  const last = values.length - 1;
  const place = ({ at, value }: { at: number; value: number }) => {
    const y = range === 0 ? height / 2 : height - ((value - low) / range) * height;
    return `${round(last === 0 ? 0 : (at / last) * width)},${round(y)}`;
  };
  return known.length === 1 ? `0,${round(height / 2)} ${round(width)},${round(height / 2)}` : known.map(place).join(" ");
}

function round(value: number): string {
  return String(Number(value.toFixed(1)));
}
