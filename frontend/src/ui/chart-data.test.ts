import { expect, test } from "vitest";
import { alignedData, isZoomed, overlaid, positive, valueAt, zoomOver } from "./chart-data";

const series = [{ label: "reward", values: [0.1, null], colour: "--series-1" }];

test("a band's edges stand before the lines, and a missing value stays missing", () => {
  expect(alignedData([1, 2], series, { low: [0, null], high: [1, null] })).toEqual([[1, 2], [0, null], [1, null], [0.1, null]]);
  expect(alignedData([1, 2], series)).toEqual([[1, 2], [0.1, null]]);
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
  expect(valueAt(columns[0] ?? [], 3)).toBe(0.1);
  expect(valueAt(columns[1] ?? [], 0)).toBeNull();
});

test("a zoom keeps its range, and follows the newest point where it ends there", () => {
  expect(zoomOver({ min: 2, max: 5 }, [1, 10], [1, 11])).toEqual({ min: 2, max: 5 });
  expect(zoomOver({ min: 6, max: 10 }, [1, 10], [1, 11])).toEqual({ min: 6, max: 11 });
});

test("what has no logarithm is a gap", () => {
  expect(positive([{ label: "loss", colour: "--series-1", values: [1, 0, -2, null, 0.5] }])[0]?.values).toEqual([1, null, null, null, 0.5]);
});
