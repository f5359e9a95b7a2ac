import { expect, test } from "vitest";
import { isSameRange, zoomOf, zoomText } from "./chart-axis";

test("a range goes into an address and comes out of it as it was, to what a plot can show", () => {
  const range = { min: 4.123456789, max: 1234.5 };
  const read = zoomOf(new URLSearchParams({ zoom: zoomText(range) }));
  expect(read).toEqual({ min: 4.123457, max: 1234.5 });
  expect(read && isSameRange(range, read)).toBe(true);
  expect(isSameRange({ min: 4, max: 1200 }, range)).toBe(false);
  expect(isSameRange({}, range)).toBe(false);
  expect(zoomText(null)).toBe("");
  expect(zoomText({ min: 1, max: 1 + 1e-9 })).toBe("");
});

test("what is no range shows all", () => {
  for (const zoom of [
    "",
    "~",
    "5",
    "5~",
    "~5",
    "5~5",
    "7~5",
    "1~2~3",
    "a~b",
    "1~Infinity",
    "NaN~2",
  ]) {
    expect(zoomOf(new URLSearchParams({ zoom })), zoom).toBeNull();
  }
  expect(zoomOf(new URLSearchParams())).toBeNull();
});
