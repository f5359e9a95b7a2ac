import { expect, test, vi } from "vitest";
import { AXES, tickText } from "./chart-axis";
import { alignedData, positive } from "./chart-data";
import { plotOptions, valueTexts } from "./plot-options";
import { zoomOf } from "./chart-zoom";
import { smoothed } from "./smoothing";

const WIDEST_PX = 6.2; // of a digit or letter of an 11 px sans-serif font, on average

test("the label of the last tick has its place on every axis", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  for (const { value: axis } of AXES) {
    const { padding } = plotOptions({ element, lines: [], height: 100, axis, overlay: false, printed: false, log: false, onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined });
    const ticks = [1, 10, 100, 1000, 10_000, 99_999, 2_000_000, 86_340, 43_140, 604_800];
    const longest = Math.max(...ticks.map((tick) => tickText(axis, tick).length));
    expect(padding?.[1], axis).toBeGreaterThanOrEqual((longest * WIDEST_PX) / 2);
  }
});

test("values are by their powers of ten where that is asked for, and by themselves elsewhere", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const look = { element: { clientWidth: 600, dataset: {} } as unknown as HTMLElement, lines: [], height: 100, axis: "step" as const, overlay: false, printed: false };
  const options = (log: boolean) => plotOptions({ ...look, log, onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined });
  expect([options(true).scales?.y?.distr, options(false).scales?.y?.distr]).toEqual([3, undefined]);
});

test("the ticks of a narrow range have as many digits as tell them apart", () => {
  expect(valueTexts([32.9312, 32.9314, 32.9316])).toEqual(["32.9312", "32.9314", "32.9316"]);
  expect(valueTexts([0, 0.5, 1])).toEqual(["0", "0.5", "1"]);
  expect(valueTexts([1e-5, 1e-3])).toEqual(["1e-5", "0.001"]);
  expect(valueTexts([20_000.2, 20_000.4])).toEqual(["20000.2", "20000.4"]);
});

test("each line stands behind what belongs to it, and a range lies between its two edges", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const line = { label: "a", colour: "--series-1", hasRange: false, hasRaw: false, isSparse: false };
  const lines = [{ ...line, hasRange: true, hasRaw: true }, { ...line, label: "b", isSparse: true }, { ...line, label: "c", hasRange: true }];
  const look = { element: { clientWidth: 600, dataset: {} } as unknown as HTMLElement, height: 100, axis: "step" as const, overlay: false, printed: false, log: false };
  const { series, bands } = plotOptions({ ...look, lines, onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined });
  expect(series.map(({ label }) => label)).toEqual([undefined, undefined, undefined, undefined, "a", "b", undefined, undefined, "c"]);
  expect(bands?.map((band) => band.series)).toEqual([[2, 1], [7, 6]]);
  expect(series.map(({ spanGaps }) => Boolean(spanGaps))).toEqual([false, false, false, false, false, true, false, false, false]);
});

test("the axis of any range that an address asks for is finite", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  const hooks = { onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined };
  for (const zoom of ["-1.7e308~1.7e308", "1e308~1.7e308", "0~1.7e308", "5e-324~1e-323", "1~1.0000000000000002", "-5~-4"]) {
    const range = zoomOf(new URLSearchParams({ zoom }));
    if (!range) throw new Error(zoom);
    for (const { value: axis } of AXES) {
      const options = plotOptions({ element, lines: [], height: 100, axis, overlay: false, printed: false, log: false, ...hooks });
      checkAxis(options, "x", range.min, range.max, []);
    }
  }
});

type Values = (number | null)[];

/** The same numbers in each run, from 0 to 1. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const SIZES = [0, 5e-324, 1e-320, 1e-300, 1e-12, 3e-5, 0.1, 1, 1 - 2 ** -53, 7.3, 1e9, 1e16, 2 ** 53, 1e300, 1.7e308];

/** Constants, noise of the last digit, steps, spread over many powers of ten, with gaps, one point, none. */
function* seriesOfAnyKind(): Generator<Values> {
  const next = dice(7);
  for (const size of SIZES.flatMap((one) => [one, -one])) {
    yield [size];
    yield Array<number>(40).fill(size);
    yield Array.from({ length: 40 }, () => size * (1 + (next() - 0.5) * 4e-16));
    yield Array.from({ length: 40 }, () => size * (1 + (next() - 0.5) * 1e-8));
    yield Array.from({ length: 40 }, () => size * (next() - 0.5));
    yield Array.from({ length: 40 }, (_, at) => (at % 3 === 0 ? null : size * at));
    yield Array.from({ length: 40 }, () => size * 10 ** (-30 * next()));
    yield [size, -size, SIZES[Math.floor(next() * SIZES.length)] ?? 0];
  }
  yield Array<null>(40).fill(null);
  yield [NaN, Infinity, 1];
}

test("the axes of any series have a finite range and few ticks that differ, under every option", () => {
  vi.stubGlobal("getComputedStyle", () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  const hooks = { onHover: () => undefined, onPick: () => undefined, onZoom: () => undefined, onPlace: () => undefined };
  const next = dice(11);
  let drawn = 0;
  for (const values of seriesOfAnyKind()) {
    for (const weight of [0, 0.1, 0.5, 0.9, 0.99]) {
      for (const log of [false, true]) {
        const line = { label: "", colour: "", values: smoothed(values, weight) };
        const [, column = []] = alignedData(values.map((_, at) => at), log ? positive([line]) : [line]) as unknown as Values[];
        const axis = AXES[drawn % AXES.length]?.value ?? "step";
        const options = plotOptions({ element, lines: [], height: 100, axis, overlay: false, printed: false, log, ...hooks });
        const zooms = [0, Math.floor(next() * values.length)];
        for (const from of zooms) {
          const shown = column.slice(from, from === 0 ? undefined : from + 3).filter((value) => value !== null);
          const [low, high] = shown.length > 0 ? [Math.min(...shown), Math.max(...shown)] : [null, null];
          checkAxis(options, "y", low, high, shown);
        }
        const [first, end] = [next() * 1e9, next() * 10 ** (-12 * next())];
        checkAxis(options, "x", first, first + end, []);
        drawn += 1;
      }
    }
  }
  expect(drawn).toBeGreaterThan(2000);
});

/** `expect` for each of some 100,000 numbers would take seconds. */
function checkAxis(options: ReturnType<typeof plotOptions>, scale: "x" | "y", low: number | null, high: number | null, shown: readonly number[]): void {
  type Splits = (plot: unknown, axis: number, min: number, max: number) => number[];
  const range = options.scales?.[scale]?.range as (plot: unknown, low: number | null, high: number | null) => [number, number];
  const [min, max] = range(null, low, high);
  const isLog = options.scales?.[scale]?.distr === 3;
  const placeOf = (value: number) => (isLog ? (Math.log10(value) - Math.log10(min)) / (Math.log10(max) - Math.log10(min)) : (value - min) / (max - min));
  const axis = options.axes?.[scale === "x" ? 0 : 1];
  const ticks = (axis?.splits as Splits)({ width: 600, height: 100 }, 0, min, max);
  const texts = (axis?.values as (plot: unknown, ticks: number[]) => string[])(null, ticks);
  const isSound =
    Number.isFinite(max - min) && max > min && shown.every((value) => Number.isFinite(placeOf(value))) &&
    ticks.length < 40 && (scale === "x" || ticks.length > 0) && !texts.includes("–") &&
    ticks.every((tick, at) => tick >= min && tick <= max && (at === 0 || tick > (ticks[at - 1] ?? 0)));
  if (!isSound) throw new Error(`${scale} of ${String(low)} to ${String(high)}: ${String(min)} to ${String(max)}, ticks ${ticks.join(" ")}`);
}
