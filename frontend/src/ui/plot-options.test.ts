import { expect, test, vi } from "vitest";
import { AXES, tickText } from "./chart-axis";
import { plotOptions, valueTexts } from "./plot-options";

const WIDEST_PX = 6.2; // of a digit or letter of an 11 px sans-serif font, on average

test("the label of the last tick has its place on every axis", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  for (const { value: axis } of AXES) {
    const { padding } = plotOptions({ element, lines: [], banded: false, height: 100, axis, overlay: false, printed: false, log: false, onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined });
    const ticks = [1, 10, 100, 1000, 10_000, 99_999, 2_000_000, 86_340, 43_140, 604_800];
    const longest = Math.max(...ticks.map((tick) => tickText(axis, tick).length));
    expect(padding?.[1], axis).toBeGreaterThanOrEqual((longest * WIDEST_PX) / 2);
  }
});

test("values are by their powers of ten where that is asked for, and by themselves elsewhere", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const look = { element: { clientWidth: 600, dataset: {} } as unknown as HTMLElement, lines: [], banded: false, height: 100, axis: "step" as const, overlay: false, printed: false };
  const options = (log: boolean) => plotOptions({ ...look, log, onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined });
  expect([options(true).scales?.y?.distr, options(false).scales?.y?.distr]).toEqual([3, undefined]);
  const text = options(true).axes?.[1]?.values as (plot: unknown, splits: (number | null)[]) => string[];
  expect(text(null, [1, null, 10])).toEqual(["1", "", "10"]); // it leaves ticks without a name
});

test("the ticks of a narrow range have as many digits as tell them apart", () => {
  expect(valueTexts([32.9312, 32.9314, 32.9316])).toEqual(["32.9312", "32.9314", "32.9316"]);
  expect(valueTexts([0, 0.5, 1])).toEqual(["0", "0.5", "1"]);
  expect(valueTexts([1e-5, null, 1e-3])).toEqual(["1e-5", "", "0.001"]);
  expect(valueTexts([20_000.2, 20_000.4])).toEqual(["20000.2", "20000.4"]);
});
