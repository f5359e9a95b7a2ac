import { expect, test } from "vitest";
import { smoothed, smoothingOf } from "./smoothing";

test("no weight changes nothing, and a constant stays exactly what it is under any", () => {
  expect(smoothed([1, null, 3], 0)).toEqual([1, null, 3]);
  for (const constant of [3e-5, 0.1, 1, 2, -7.3, 5e-324, 1.7e308]) {
    for (let weight = 0.01; weight < 1; weight += 0.01)
      expect(smoothed(Array<number>(60).fill(constant), weight)).toEqual(
        Array<number>(60).fill(constant),
      );
  }
});

test("values that are as far apart as there are numbers have finite means", () => {
  for (const value of smoothed([1.7e308, -1.7e308, 1.7e308], 0.3))
    expect(Number.isFinite(value)).toBe(true);
  expect(smoothed([Infinity, 2], 0.5)).toEqual([null, 2]);
});

test("the first value is not drawn to zero, and a gap stays a gap", () => {
  const [first, gap, second] = smoothed([4, null, 8], 0.5);
  expect(first).toBeCloseTo(4, 12);
  expect(gap).toBeNull();
  expect(second).toBeCloseTo((0.25 * 4 + 0.5 * 8) / 0.75, 12);
});

test("an address asks for a weight from 0 to 0.99", () => {
  expect(smoothingOf(new URLSearchParams("smooth=0.6"))).toBe(0.6);
  expect(smoothingOf(new URLSearchParams("smooth=7"))).toBe(0.99);
  expect(smoothingOf(new URLSearchParams("smooth=evil"))).toBe(0);
  expect(smoothingOf(new URLSearchParams())).toBe(0);
});
