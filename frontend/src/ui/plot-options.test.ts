import uPlot from "uplot";
import { expect, test, vi } from "vitest";
import { AXES, tickText, zoomOf } from "./chart-axis";
import { alignedData, positive } from "./chart-data";
import { plotOptions, valueTexts } from "./plot-options";
import { smoothed } from "./smoothing";

const WIDEST_PX = 6.2; // of a digit or letter of an 11 px sans-serif font, on average

test("the label of the last tick has its place on every axis", () => {
  vi.stubGlobal("getComputedStyle", () => ({
    getPropertyValue: () => "#000",
    fontFamily: "sans-serif",
  }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  for (const { value: axis } of AXES) {
    const { padding } = plotOptions({
      element,
      lines: [],
      height: 100,
      axis,
      overlay: false,
      printed: false,
      log: false,
      onHover: () => undefined,
      onPick: () => undefined,
      onZoom: () => undefined,
      onPlace: () => undefined,
    });
    const ticks = [1, 10, 100, 1000, 10_000, 99_999, 2_000_000, 86_340, 43_140, 604_800];
    const longest = Math.max(...ticks.map((tick) => tickText(axis, tick).length));
    expect(padding?.[1], axis).toBeGreaterThanOrEqual((longest * WIDEST_PX) / 2);
  }
});

test("values are by their powers of ten where that is asked for, and by themselves elsewhere", () => {
  vi.stubGlobal("getComputedStyle", () => ({
    getPropertyValue: () => "#000",
    fontFamily: "sans-serif",
  }));
  const look = {
    element: { clientWidth: 600, dataset: {} } as unknown as HTMLElement,
    lines: [],
    height: 100,
    axis: "step" as const,
    overlay: false,
    printed: false,
  };
  const options = (log: boolean) =>
    plotOptions({
      ...look,
      log,
      onHover: () => undefined,
      onPick: () => undefined,
      onZoom: () => undefined,
      onPlace: () => undefined,
    });
  expect([options(true).scales?.y?.distr, options(false).scales?.y?.distr]).toEqual([3, undefined]);
});

test("the ticks of a narrow range have as many digits as tell them apart", () => {
  expect(valueTexts([32.9312, 32.9314, 32.9316])).toEqual(["32.9312", "32.9314", "32.9316"]);
  expect(valueTexts([0, 0.5, 1])).toEqual(["0", "0.5", "1"]);
  expect(valueTexts([1e-5, 1e-3])).toEqual(["1e-5", "0.001"]);
  expect(valueTexts([20_000.2, 20_000.4])).toEqual(["20000.2", "20000.4"]);
});

test("each line stands behind what belongs to it, and a range lies between its two edges", () => {
  vi.stubGlobal("getComputedStyle", () => ({
    getPropertyValue: () => "#000",
    fontFamily: "sans-serif",
  }));
  const line = {
    label: "a",
    colour: "--series-1",
    hasRange: false,
    isSparse: false,
  };
  const lines = [
    { ...line, hasRange: true },
    { ...line, label: "b", isSparse: true },
    { ...line, label: "c", hasRange: true },
  ];
  const look = {
    element: { clientWidth: 600, dataset: {} } as unknown as HTMLElement,
    height: 100,
    axis: "step" as const,
    overlay: false,
    printed: false,
    log: false,
  };
  const { series, bands } = plotOptions({
    ...look,
    lines,
    onHover: () => undefined,
    onPick: () => undefined,
    onZoom: () => undefined,
    onPlace: () => undefined,
  });
  // x; then its edges, what was measured, and the line
  expect(series.map(({ label }) => label)).toEqual(
    [[""], ["", "", "", "a"], ["", "b"], ["", "", "", "c"]]
      .flat()
      .map((label) => label || undefined),
  );
  expect(bands?.map((band) => band.series)).toEqual([
    [2, 1],
    [8, 7],
  ]);
  expect(series.flatMap(({ spanGaps, label }) => (spanGaps ? [label] : []))).toEqual(["b"]);
});

test("the axis of any range that an address asks for is finite", () => {
  vi.stubGlobal("getComputedStyle", () => ({
    getPropertyValue: () => "#000",
    fontFamily: "sans-serif",
  }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  const hooks = {
    onHover: () => undefined,
    onPick: () => undefined,
    onZoom: () => undefined,
    onPlace: () => undefined,
  };
  for (const zoom of [
    "-1.7e308~1.7e308",
    "1e308~1.7e308",
    "0~1.7e308",
    "5e-324~1e-323",
    "1~1.0000000000000002",
    "-5~-4",
  ]) {
    const range = zoomOf(new URLSearchParams({ zoom }));
    if (!range) throw new Error(zoom);
    for (const { value: axis } of AXES) {
      const options = plotOptions({
        element,
        lines: [],
        height: 100,
        axis,
        overlay: false,
        printed: false,
        log: false,
        ...hooks,
      });
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

const SIZES = [
  0,
  5e-324,
  1e-320,
  1e-300,
  1e-12,
  3e-5,
  0.1,
  1,
  1 - 2 ** -53,
  7.3,
  1e9,
  1e16,
  2 ** 53,
  1e300,
  1.7e308,
];

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

test("any series has finite axes, few ticks that differ, and no more lines than points, under every option", () => {
  vi.stubGlobal("getComputedStyle", () => ({
    getPropertyValue: () => "#000",
    fontFamily: "sans-serif",
  }));
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  const hooks = {
    onHover: () => undefined,
    onPick: () => undefined,
    onZoom: () => undefined,
    onPlace: () => undefined,
  };
  const next = dice(11);
  vi.stubGlobal("Path2D", CountedPath);
  let drawn = 0;
  for (const values of seriesOfAnyKind()) {
    for (const weight of [0, 0.1, 0.5, 0.9, 0.99]) {
      for (const log of [false, true]) {
        const line = { label: "", colour: "", values: smoothed(values, weight) };
        const [, , column = []] = alignedData(
          values.map((_, at) => at),
          log ? positive([line]) : [line],
        ) as unknown as Values[];
        const axis = AXES[drawn % AXES.length]?.value ?? "step";
        const options = plotOptions({
          element,
          lines: [],
          height: 100,
          axis,
          overlay: false,
          printed: false,
          log,
          ...hooks,
        });
        const zooms = [0, Math.floor(next() * values.length)];
        for (const from of zooms) {
          const shown = column
            .slice(from, from === 0 ? undefined : from + 3)
            .filter((value) => value !== null);
          const [low, high] =
            shown.length > 0 ? [Math.min(...shown), Math.max(...shown)] : [null, null];
          checkAxis(options, "y", low, high, shown);
          checkPath(options, column, from);
        }
        const [first, end] = [next() * 1e9, next() * 10 ** (-12 * next())];
        checkAxis(options, "x", first, first + end, []);
        drawn += 1;
      }
    }
  }
  expect(drawn).toBeGreaterThan(2000);
});

test("a long curve is drawn with as many lines as its width has room for", () => {
  vi.stubGlobal("getComputedStyle", () => ({
    getPropertyValue: () => "#000",
    fontFamily: "sans-serif",
  }));
  vi.stubGlobal("Path2D", CountedPath);
  const element = { clientWidth: 600, dataset: {} } as unknown as HTMLElement;
  const hooks = {
    onHover: () => undefined,
    onPick: () => undefined,
    onZoom: () => undefined,
    onPlace: () => undefined,
  };
  const options = plotOptions({
    element,
    lines: [],
    height: 100,
    axis: "step",
    overlay: false,
    printed: false,
    log: false,
    ...hooks,
  });
  const next = dice(3);
  for (const count of [10_000, 100_000]) {
    const values = smoothed(
      Array.from({ length: count }, () => next() - 0.5),
      0.5,
    );
    expect(checkPath(options, values, 0)).toBeGreaterThan(1000);
  }
});

const BOX = { left: 48, top: 8, width: 532, height: 68 };
const EACH_PIXEL = 4; // lines of a curve at most: in, lowest, highest, out

/** What is given to a canvas: how many lines, and whether each has a place. */
class CountedPath {
  lines = 0;
  lineTo(x: number, y: number): void {
    // A little beyond the box: what is not shown is cut there.
    if (!(Math.abs(x) <= 1e6) || !(Math.abs(y) <= 1e6))
      throw new Error(`a line to ${String(x)}, ${String(y)}`);
    this.lines += 1;
  }
  rect(): void {
    this.lines += 1;
  }
}

/** The number of lines of the part from `from` on as uPlot draws them: bounded by its points, and by its pixels. */
function checkPath(options: ReturnType<typeof plotOptions>, values: Values, from: number): number {
  type Ranges = (plot: unknown, low: number | null, high: number | null) => [number, number];
  const end = from === 0 ? values.length - 1 : Math.min(from + 2, values.length - 1);
  const shown = values.slice(from, end + 1).filter((value) => value !== null);
  if (shown.length === 0) return 0;
  const ends = shown.reduce(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)] as [number, number],
    [Infinity, -Infinity] as [number, number],
  );
  const [isLog, [low, high], [first, last]] = [
    options.scales?.y?.distr === 3,
    (options.scales?.y?.range as Ranges)(null, ...ends),
    (options.scales?.x?.range as Ranges)(null, from, end),
  ];
  const part = (value: number, min: number, max: number) => (value - min) / (max - min);
  const places = values.map((_, at) => at);
  const plot = {
    mode: 1,
    bands: [],
    bbox: BOX,
    _data: [places, values],
    scales: { x: { ori: 0, dir: 1, key: "x" }, y: { ori: 1, dir: 1, key: "y" } },
    series: [
      { scale: "x" },
      {
        scale: "y",
        pxRound: Math.round,
        spanGaps: false,
        gaps: (...[, , , , gaps]: unknown[]) => gaps,
      },
    ],
    valToPosH: (value: number) => BOX.left + BOX.width * part(value, first, last),
    valToPosV: (value: number) =>
      BOX.top +
      BOX.height *
        (1 -
          (isLog
            ? part(Math.log10(value), Math.log10(low), Math.log10(high))
            : part(value, low, high))),
    posToVal: (pixel: number) => first + ((pixel - BOX.left) / BOX.width) * (last - first),
  };
  const draw = uPlot.paths.linear?.() as unknown as (
    plot: unknown,
    series: number,
    from: number,
    to: number,
  ) => { stroke: CountedPath; clip: CountedPath | null };
  const { stroke, clip } = draw(plot, 1, from, end);
  const lines = stroke.lines + (clip?.lines ?? 0);
  const most = Math.min(2 * (end - from + 1) + 1, EACH_PIXEL * (BOX.width + 1));
  if (lines > most)
    throw new Error(
      `${String(lines)} lines for ${String(end - from + 1)} points, at most ${String(most)}`,
    );
  return lines;
}

/** `expect` for each of some 100,000 numbers would take seconds. */
function checkAxis(
  options: ReturnType<typeof plotOptions>,
  scale: "x" | "y",
  low: number | null,
  high: number | null,
  shown: readonly number[],
): void {
  type Splits = (plot: unknown, axis: number, min: number, max: number) => number[];
  const range = options.scales?.[scale]?.range as (
    plot: unknown,
    low: number | null,
    high: number | null,
  ) => [number, number];
  const [min, max] = range(null, low, high);
  const isLog = options.scales?.[scale]?.distr === 3;
  const placeOf = (value: number) =>
    isLog
      ? (Math.log10(value) - Math.log10(min)) / (Math.log10(max) - Math.log10(min))
      : (value - min) / (max - min);
  const axis = options.axes?.[scale === "x" ? 0 : 1];
  const ticks = (axis?.splits as Splits)({ width: 600, height: 100 }, 0, min, max);
  const texts = (axis?.values as (plot: unknown, ticks: number[]) => string[])(null, ticks);
  const isSound =
    Number.isFinite(max - min) &&
    max > min &&
    shown.every((value) => Number.isFinite(placeOf(value))) &&
    ticks.length < 40 &&
    (scale === "x" || ticks.length > 0) &&
    !texts.includes("–") &&
    ticks.every(
      (tick, at) => tick >= min && tick <= max && (at === 0 || tick > (ticks[at - 1] ?? 0)),
    );
  if (!isSound)
    throw new Error(
      `${scale} of ${String(low)} to ${String(high)}: ${String(min)} to ${String(max)}, ticks ${ticks.join(" ")}`,
    );
}
