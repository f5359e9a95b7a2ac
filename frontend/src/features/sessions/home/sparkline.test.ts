import { expect, test } from "vitest";
import { sparkPoints } from "./sparkline";

test("a curve fills the box, with the largest value on top and gaps bridged", () => {
  expect(sparkPoints([0, null, 1, 0.5], 30, 10)).toBe("0,10 20,0 30,5");
});

test("one value, or equal ones, are a flat line, and none is no line", () => {
  expect(sparkPoints([4], 30, 10)).toBe("0,5 30,5");
  expect(sparkPoints([2, 2], 30, 10)).toBe("0,5 30,5");
  expect(sparkPoints([null, null], 30, 10)).toBe("");
  expect(sparkPoints([1, 1 - 2 ** -53], 30, 10)).toBe("0,5 30,5");
  expect(sparkPoints([-1.7e308, 1.7e308], 30, 10)).toBe("0,10 30,0");
});
