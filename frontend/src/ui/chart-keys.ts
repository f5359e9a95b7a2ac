// What a key does in a chart: which point is read, what of the axis is shown, whether the point is opened.
import type { Range } from "./chart-axis";

type ChartKey = { read: number } | { zoom: Range | null } | "open";

/** Null for a key that a chart has no use for. `at`: the point that is read; `shown`: what of the axis is. */
export function chartKey(
  key: string,
  at: number | null,
  x: readonly number[],
  shown: Range,
): ChartKey | null {
  const [first, last] = [
    x.findIndex((place) => place >= shown.min),
    x.findLastIndex((place) => place <= shown.max),
  ];
  if (first < 0 || last < first) return key === "0" || key === "-" ? { zoom: null } : null;
  const within = at !== null && at >= first && at <= last ? at : null;
  switch (key) {
    case "ArrowRight":
      return { read: within === null ? first : Math.min(within + 1, last) };
    case "ArrowLeft":
      return { read: within === null ? last : Math.max(within - 1, first) };
    case "Home":
      return { read: first };
    case "End":
      return { read: last };
    case "+":
    case "=":
      return {
        zoom: around(
          x[within ?? Math.floor((first + last) / 2)] ?? 0,
          (shown.max - shown.min) / 4,
          x,
        ),
      };
    case "-":
      return { zoom: around((shown.min + shown.max) / 2, shown.max - shown.min, x) };
    case "0":
      return { zoom: null };
    case "Enter":
      return within === null ? null : "open";
    default:
      return null;
  }
}

/** As far to both sides of the middle as there is data; null where that is all of it. */
function around(middle: number, half: number, x: readonly number[]): Range | null {
  const [first = 0, last = 0] = [x[0], x[x.length - 1]];
  const [min, max] = [Math.max(first, middle - half), Math.min(last, middle + half)];
  return min < max && (min > first || max < last) ? { min, max } : null;
}
