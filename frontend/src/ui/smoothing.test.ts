import { expect, test } from "vitest";
import { smoothed, smoothingOf } from "./smoothing";

test("no weight changes nothing, and a constant stays what it is under any", () => {
  expect(smoothed([1, null, 3], 0)).toEqual([1, null, 3]);
  for (const value of smoothed([2, 2, 2, 2], 0.9)) expect(value).toBeCloseTo(2, 12);
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
