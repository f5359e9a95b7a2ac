import { expect, test } from "vitest";
import {
  alignedData,
  isZoomed,
  lastReading,
  linesOf,
  overlaid,
  positive,
  readingAt,
  zoomOver,
} from "./chart-data";

const series = [{ label: "reward", values: [0.1, null], colour: "--series-1" }];

test("what stands behind a line comes before it, and a missing value stays missing", () => {
  const whole = series.map((one) => ({
    ...one,
    raw: [0.2, null],
    low: [0, null],
    high: [1, null],
  }));
  expect(alignedData([1, 2], whole)).toEqual([
    [1, 2],
    [0, null],
    [1, null],
    [0.2, null],
    [0.1, null],
  ]);
  expect(linesOf(whole)).toEqual([
    { label: "reward", colour: "--series-1", hasRange: true, isSparse: false },
  ]);
  expect(alignedData([1, 2], series)).toEqual([
    [1, 2],
    [null, null], // what smoothing hides comes into the plot that is there
    [0.1, null],
  ]);
});

test("a range inside the data is a zoom, the whole of it is none", () => {
  expect(isZoomed({ min: 1, max: 9 }, [1, 5, 9])).toBe(false);
  expect(isZoomed({ min: 0, max: 10 }, [5])).toBe(false); // one step alone gets an axis around it
  expect(isZoomed({ min: 3, max: 9 }, [1, 5, 9])).toBe(true);
  expect(isZoomed({ min: 1, max: 5 }, [1, 5, 9])).toBe(true);
  expect(isZoomed({}, [1, 5, 9])).toBe(false);
});

test("curves over different steps share an axis, and each is read at its last point before the cursor", () => {
  const { x, columns } = overlaid([
    { x: [1, 3], values: [0.1, null] },
    { x: [2, 3, 5], values: [0.2, 0.3, 0.5] },
  ]);
  expect(x).toEqual([1, 2, 3, 5]);
  expect(columns).toEqual([
    [0.1, null, null, null],
    [null, 0.2, 0.3, 0.5],
  ]);
  expect(readingAt(columns[0] ?? [], 0)).toEqual({ value: 0.1, at: 0 });
  expect(readingAt(columns[1] ?? [], 0)).toBeNull();
  expect(readingAt([0.1, null, 0.2, null], 1)).toEqual({ value: 0.1, at: 0 });
});

test("a curve is not read beyond its last point, which is what it stands at in the end", () => {
  const ended = [0.1, 0.8927, null, null];
  expect(readingAt(ended, 3)).toBeNull();
  expect(lastReading(ended)).toEqual({ value: 0.8927, at: 1 });
  expect(lastReading([null])).toBeNull();
});

test("a zoom keeps its range, and follows the newest point where it ends there", () => {
  expect(zoomOver({ min: 2, max: 5 }, [1, 10], [1, 11])).toEqual({ min: 2, max: 5 });
  expect(zoomOver({ min: 6, max: 10 }, [1, 10], [1, 11])).toEqual({ min: 6, max: 11 });
});

test("what has no logarithm is a gap", () => {
  expect(
    positive([{ label: "loss", colour: "--series-1", values: [1, 0, -2, null, 0.5] }])[0]?.values,
  ).toEqual([1, null, null, null, 0.5]);
  expect(
    positive([
      { label: "loss", colour: "--series-1", values: [1, 2], low: [-1, 1], high: [3, 4] },
    ])[0],
  ).toMatchObject({ low: [3, 1], high: [3, 4] });
});
