import { expect, test } from "vitest";
import type { Episode, Group, ResourceColumns, Step } from "../../../api/types";
import {
  histogram,
  memoryAt,
  ratioBars,
  RATIO_EDGES,
  skippedText,
  spreadsOf,
  wholeBars,
} from "./spread";

test("every value is in one bar, the highest in the last", () => {
  const bars = histogram([0, 0.1, 0.5, 1, 1], 2);
  expect(bars).toEqual([
    { text: "0 to 0.5", count: 2 },
    { text: "0.5 to 1", count: 3 },
  ]);
  expect(histogram([3, 3])).toEqual([{ text: "3", count: 2 }]);
  expect(histogram([])).toEqual([]);
  expect(histogram([1, 1 - 2 ** -53])).toEqual([{ text: "1", count: 2 }]);
  expect(histogram([5e-324, 0])).toHaveLength(1);
  expect(histogram([-1.7e308, 0, 1.7e308]).map(({ count }) => count)).toEqual([
    1, 0, 0, 0, 0, 1, 0, 0, 0, 1,
  ]);
  expect(wholeBars([0, 4e9])).toHaveLength(10);
  expect(wholeBars([0, 2, 2])).toEqual([
    { text: "0", count: 1 },
    { text: "1", count: 0 },
    { text: "2", count: 2 },
  ]);
});

test("staleness is counted from the version that the step began with", () => {
  const episode = (first: number | null) =>
    ({ reward: null, advantage: null, ratio_counts: null, policy_version_first: first }) as Episode;
  const step = {
    step: 5,
    groups: [{ episodes: [episode(4), episode(4), episode(2), episode(0), episode(null)] }],
  } as Step;
  expect(
    spreadsOf(step).map(({ title, bars }) => [
      title,
      bars.map(({ text, count }) => `${text}: ${String(count)}`),
    ]),
  ).toEqual([["Staleness", ["0: 2", "1: 0", "2: 1", "3: 0", "4: 1"]]]);
});

test("ratios of episodes add up, and episodes that kept none are left out", () => {
  const counts = Array.from({ length: RATIO_EDGES.length + 1 }, (_, at) =>
    at === 0 || at === 7 ? 2 : 0,
  );
  const bars = ratioBars([counts, null, counts]);
  expect(bars.filter(({ count }) => count > 0)).toEqual([
    { text: "below 0.5", count: 4 },
    { text: "0.9999 to 1.0001", count: 4 },
  ]);
  expect(bars[bars.length - 1]?.text).toBe("2 or more");
  expect(ratioBars([null])).toEqual([]);
});

test("groups that taught nothing are counted with the reason", () => {
  const group = (has_signal: boolean) => ({ has_signal }) as Group;
  expect(skippedText([group(true), group(false)], 1)).toBe(
    "1 of 2 groups had equal rewards and taught nothing; 1 group without a gradient was set aside on the way to this step.",
  );
  expect(skippedText([group(true)], 2)).toBe(
    "2 groups without a gradient were set aside on the way to this step.",
  );
  expect(skippedText([group(true)], 0)).toBeNull();
});

test("memory is that of the nearest sample, and none where there is none near", () => {
  const created = "2030-01-01T00:00:00Z";
  const at = (seconds: number) => new Date(Date.parse(created) + seconds * 1000).toISOString();
  const told = {
    x: [10, 20],
    columns: { memory_bytes: { mean: [1024, 2048] }, gpu0_memory_bytes: { mean: [null, 4096] } },
    latest: { memory_total_bytes: 8192, gpus: [{ memory_total_bytes: null }] },
  } as unknown as ResourceColumns;
  expect(memoryAt(told, created, at(19))).toEqual([
    ["Memory of 8.00 KiB", "2.00 KiB"],
    ["GPU 0 memory", "4.00 KiB"],
  ]);
  expect(memoryAt(told, created, at(11))).toEqual([["Memory of 8.00 KiB", "1.00 KiB"]]);
  expect(memoryAt(told, created, at(5000))).toEqual([]);
});
