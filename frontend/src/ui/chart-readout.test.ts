import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { lastShown, Readout, spokenText } from "./chart-readout";

const x = [1, 2000, 5000];
const series = [
  {
    label: "long",
    colour: "--series-1",
    values: [0.5, 0.7, 0.9],
    raw: [0.1, 0.2, 0.9942],
    low: [0.1, 0.1, 0.6],
    high: [0.1, 0.4, 1],
  },
  { label: "short", colour: "--series-2", values: [0.1, 0.8927, null] },
];

test("each curve is read as it was measured, at the step that is named", () => {
  expect(spokenText(x, series, "step", 2)).toBe(
    "at step 5,000: long 0.9942, short 0.8927 at step 2,000",
  );
  expect(spokenText(x, series, "step", 1, true)).toBe("at step 2,000: long 0.2, short 0.8927");
  const shown = renderToStaticMarkup(
    createElement(Readout, {
      x,
      series,
      axis: "step",
      last: 2,
      onHoverRef: { current: () => undefined },
    }),
  )
    .replace(/<!-- -->/g, "")
    .replace(/<[^>]+>/g, "|");
  expect(shown.split("|").filter(Boolean)).toEqual([
    "long",
    "0.9942",
    "0.6 to 1",
    "short",
    "0.8927",
    "(step 2,000)",
    "step 5,000",
  ]);
});

test("of a zoomed chart the last point that is shown is read", () => {
  expect(lastShown(x, null)).toBe(2);
  expect(lastShown(x, { min: 1, max: 2500 })).toBe(1);
  expect(lastShown(x, { min: -2, max: 0.5 })).toBe(2); // none of them
  expect(spokenText(x, series, "step", 1)).toBe("at step 2,000: long 0.2, short 0.8927");
});
