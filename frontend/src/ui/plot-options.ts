// How every plot looks, in the colours of the page.
import type uPlot from "uplot";
import { tickText, type Axis, type Range } from "./chart-axis";
import type { Line } from "./chart-data";
import type { Place } from "./chart-markers";
import { number } from "./format";
import { linearTicks, placeRange, powerRange, powerTicks, valueRange } from "./plot-range";

const DECADES = [1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
const WHOLE = DECADES.flatMap((decade) => [decade, 2 * decade, 5 * decade]);
const SECONDS = [
  1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800,
];
const STEPS: Record<Axis, number[]> = {
  step: WHOLE,
  time: SECONDS,
  tokens: WHOLE,
  episodes: WHOLE,
  call: WHOLE,
};

// Half of the longest label of the last tick stands right of the axis: "10,000", "23 h 59 min", in px.
const RIGHT: Record<Axis, number> = { step: 20, time: 36, tokens: 20, episodes: 20, call: 20 };

const BOTTOM = 24;
const LEFT = 48; // of the values' labels
const TOP = 8;
const VALUE_SPACE = 32;
const LEAST_TICKS = 3; // with fewer, a range may lie between two
const MOST_DIGITS = 8;
const PAPER_WIDTH = 640; // A4 and Letter upright, within their margins

export interface PlotLook {
  element: HTMLElement;
  lines: readonly Line[];
  height: number;
  axis: Axis;
  /** Whether lines lead over missing values. */
  overlay: boolean;
  /** Whether it goes on paper, which is narrower than a window. */
  printed: boolean;
  /** Whether values are by their powers of ten; those that are not above zero are gaps. */
  log: boolean;
  onHover: (index: number | null) => void;
  /** A click that is no drag. */
  onPick: (index: number) => void;
  /** A range that was chosen in this plot with the mouse; null: all of it again. Plots that share its cursor follow by themselves. */
  onZoom: (range: Range | null) => void;
  /** Where it is drawn and what of the axis it shows: at first, and whenever that has changed. */
  onPlace: (place: Place) => void;
}

/** Of a plot in this box, in CSS pixels. */
export function plotWidth(element: HTMLElement, printed: boolean): number {
  return Math.max(Math.min(element.clientWidth, printed ? PAPER_WIDTH : Infinity), 50);
}

export function plotOptions({
  element,
  lines,
  height,
  axis: over,
  overlay,
  printed,
  log,
  onHover,
  onPick,
  onZoom,
  onPlace,
}: PlotLook): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const font = `11px ${style.fontFamily}`;
  const axis: uPlot.Axis = {
    stroke: colour("--muted"),
    font,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    // The ticks below need no increment of uPlot's; without one it draws none, and this one fits every range.
    incrs: [Infinity],
    filter: (_, splits) => splits,
  };
  const space = over === "step" ? 50 : 80;
  let isPressed = false; // here, and not in a plot that shares the cursor
  return {
    width: plotWidth(element, printed),
    height,
    padding: [TOP, RIGHT[over], 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false }, sync: { key: over }, points: { size: 6 } },
    scales: {
      x: { time: false, range: (_, low, high) => placeRange(low, high) },
      y: {
        ...(log && { distr: 3 }),
        range: (_, low, high) => (log ? powerRange : valueRange)(low, high),
      },
    },
    axes: [
      {
        ...axis,
        size: BOTTOM,
        gap: 2,
        space,
        splits: (plot, _, min, max) =>
          linearTicks(min, max, (plot.width - LEFT - RIGHT[over]) / space, STEPS[over]),
        values: (_, splits) => splits.map((split) => tickText(over, split)),
        grid: { show: false },
      },
      {
        ...axis,
        size: LEFT,
        gap: 4,
        space: VALUE_SPACE,
        splits: (plot, _, min, max) =>
          (log ? powerTicks : linearTicks)(
            min,
            max,
            Math.max((plot.height - BOTTOM - TOP) / VALUE_SPACE, LEAST_TICKS),
          ),
        values: (_, splits) => valueTexts(splits),
      },
    ],
    series: [{}, ...lines.flatMap((line) => drawnLines(line, colour(line.colour), overlay))],
    bands: rangesOf(lines).map(({ at, line }) => ({
      series: [at + 1, at],
      fill: faint(colour(line.colour), 18),
    })),
    hooks: {
      ready: [
        (plot) => {
          plot.over.addEventListener("mousedown", () => {
            isPressed = true;
          });
          plot.over.addEventListener("click", () => {
            isPressed = false;
            if (typeof plot.cursor.idx === "number") onPick(plot.cursor.idx);
          });
          plot.over.addEventListener("dblclick", () => {
            onZoom(null);
          });
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (isPressed && width > 0)
            onZoom({ min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") });
        },
      ],
      setCursor: [
        (plot) => {
          onHover(plot.cursor.idx ?? null);
        },
      ],
      draw: [
        (plot) => {
          onPlace(placeOf(plot));
        },
      ],
      // The canvas shows it only as a picture: here it can be read.
      setScale: [
        (plot, key) => {
          const { min, max } = plot.scales[key] ?? {};
          if (key === "x") element.dataset.shown = `${String(min)} ${String(max)}`;
        },
      ],
    },
  };
}

/** What stands behind a line, and the line, in the order of its columns. */
function drawnLines(
  { label, hasRange, isSparse }: Line,
  colour: string,
  overlay: boolean,
): uPlot.Series[] {
  const edge: uPlot.Series = {
    stroke: faint(colour, 40),
    width: 0.75,
    spanGaps: overlay,
    points: { show: false },
  };
  const raw: uPlot.Series = {
    stroke: faint(colour, 30),
    width: 1,
    spanGaps: overlay,
    points: { show: false },
  };
  const line: uPlot.Series = {
    label,
    stroke: colour,
    width: 1.75,
    spanGaps: overlay || isSparse,
    points: { size: 5, fill: colour, ...(isSparse && { show: true }) },
  };
  return [...(hasRange ? [edge, edge] : []), raw, line];
}

/** The lines that have a range, each with the column of its lower edge. */
function rangesOf(lines: readonly Line[]): { at: number; line: Line }[] {
  let at = 1;
  return lines.flatMap((line) => {
    const first = at;
    at += (line.hasRange ? 2 : 0) + 2;
    return line.hasRange ? [{ at: first, line }] : [];
  });
}

function faint(colour: string, percent: number): string {
  return `color-mix(in srgb, ${colour} ${String(percent)}%, transparent)`;
}

/** Its box is in pixels of the canvas. */
function placeOf(plot: uPlot): Place {
  const css = (pixels: number) => pixels / devicePixelRatio;
  const { left, top, width, height } = plot.bbox;
  return {
    left: css(left),
    top: css(top),
    width: css(width),
    height: css(height),
    min: plot.scales.x?.min ?? 0,
    max: plot.scales.x?.max ?? 0,
  };
}

export function valueTexts(ticks: readonly number[]): string[] {
  const texts = ticks.map((tick) => number(Number(tick.toPrecision(6))));
  if (new Set(texts).size === texts.length) return texts;
  // A narrow range far from zero: as many digits as tell its ticks apart.
  for (let digits = 5; digits <= MOST_DIGITS; digits += 1) {
    const longer = ticks.map((tick) => String(Number(tick.toPrecision(digits))));
    if (new Set(longer).size === longer.length) return longer;
  }
  return texts;
}
