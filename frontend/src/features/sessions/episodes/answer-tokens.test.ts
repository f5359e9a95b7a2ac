import { expect, test } from "vitest";
import { commonPrefix, partingAt } from "./answer-tokens";

test("answers part at the first token that is not the same in all", () => {
  expect(
    commonPrefix([
      [1, 2, 3],
      [1, 2, 4],
      [1, 2],
    ]),
  ).toBe(2);
  expect(commonPrefix([[1], [2]])).toBe(0);
  expect(
    commonPrefix([
      [1, 2],
      [1, 2],
    ]),
  ).toBe(2);
});

test("one answer alone shares nothing", () => {
  expect(commonPrefix([[1, 2, 3]])).toBe(0);
  expect(commonPrefix([])).toBe(0);
});

test("answers that are all the same, and one alone, part nowhere", () => {
  expect(
    partingAt([
      [1, 2],
      [1, 2, 3],
    ]),
  ).toBe(2);
  expect([
    partingAt([
      [1, 2],
      [1, 2],
    ]),
    partingAt([[1, 2]]),
    partingAt([]),
    partingAt([[1], [2]]),
  ]).toEqual([0, 0, 0, 0]);
});
