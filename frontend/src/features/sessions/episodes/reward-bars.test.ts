import { expect, test } from "vitest";
import { rewardBars } from "./reward-bars";

const bucket = (lowest: number, highest: number, count: number) => ({ lowest, highest, count });

test("bars stand where their rewards are, and the highest is whole", () => {
  const { bars, columns } = rewardBars([
    bucket(-1, -0.9, 2),
    bucket(0.05, 0.05, 1),
    bucket(1, 1, 8),
  ]);
  expect(columns).toBe(24);
  expect(bars.map((bar) => [bar.column, bar.share])).toEqual([
    [1, 0.25],
    [13, 0.125],
    [24, 1],
  ]);
  expect(bars.map((bar) => bar.text)).toEqual([
    "Reward -1 to -0.9: 2 episodes",
    "Reward 0.05: 1 episode",
    "Reward 1: 8 episodes",
  ]);
});

test("equal rewards are one bar, none are none, and numbers of any size have their place", () => {
  expect(rewardBars([bucket(0.5, 0.5, 3)])).toMatchObject({
    columns: 1,
    bars: [{ column: 1, share: 1 }],
  });
  expect(rewardBars([])).toEqual({ bars: [], columns: 0 });
  const huge = rewardBars([
    bucket(-Number.MAX_VALUE, -Number.MAX_VALUE, 1),
    bucket(0, 0, 1),
    bucket(Number.MAX_VALUE, Number.MAX_VALUE, 1),
  ]);
  expect(huge.bars.map((bar) => bar.column)).toEqual([1, 13, 24]);
});

test("no two bars share a column", () => {
  const { bars } = rewardBars(
    Array.from({ length: 24 }, (_, at) => bucket(at * 0.1, at * 0.1 + 0.05, 1)),
  );
  expect(new Set(bars.map((bar) => bar.column)).size).toBe(24);
});
