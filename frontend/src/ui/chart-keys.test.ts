import { expect, test } from "vitest";
import { chartKey } from "./chart-keys";

const x = [1, 2, 3, 4, 5, 6, 7, 8, 9];
const all = { min: 1, max: 9 };

test("arrow keys read points one by one, within what is shown", () => {
  expect(chartKey("ArrowRight", null, x, all)).toEqual({ read: 0 });
  expect(chartKey("ArrowLeft", null, x, all)).toEqual({ read: 8 });
  expect(chartKey("ArrowRight", 3, x, all)).toEqual({ read: 4 });
  expect(chartKey("ArrowRight", 8, x, all)).toEqual({ read: 8 });
  expect(chartKey("ArrowLeft", 0, x, all)).toEqual({ read: 0 });
  expect(chartKey("Home", 5, x, { min: 2.5, max: 6 })).toEqual({ read: 2 });
  expect(chartKey("End", 2, x, { min: 2.5, max: 6 })).toEqual({ read: 5 });
  expect(chartKey("ArrowRight", 0, x, { min: 2.5, max: 6 })).toEqual({ read: 2 });
});

test("plus halves what is shown around the point that is read, minus doubles it, and zero shows all", () => {
  expect(chartKey("+", 4, x, all)).toEqual({ zoom: { min: 3, max: 7 } });
  expect(chartKey("+", 0, x, all)).toEqual({ zoom: { min: 1, max: 3 } });
  expect(chartKey("=", null, x, all)).toEqual({ zoom: { min: 3, max: 7 } });
  expect(chartKey("-", null, x, { min: 4, max: 6 })).toEqual({ zoom: { min: 3, max: 7 } });
  expect(chartKey("-", null, x, { min: 3, max: 7 })).toEqual({ zoom: null });
  expect(chartKey("0", null, x, { min: 3, max: 7 })).toEqual({ zoom: null });
  expect(chartKey("0", null, x, { min: 20, max: 30 })).toEqual({ zoom: null });
});

test("only a point that is read is opened, and other keys stay the browser's", () => {
  expect(chartKey("Enter", 2, x, all)).toBe("open");
  expect(["Enter", "Tab", "a", " "].map((key) => chartKey(key, null, x, all))).toEqual([
    null,
    null,
    null,
    null,
  ]);
  expect(chartKey("ArrowRight", null, [], all)).toBeNull();
  expect(chartKey("+", 0, [5], { min: 4, max: 6 })).toEqual({ zoom: null });
});
