import { expect, test } from "vitest";
import { clustersOf, coloursOf, markersText, type Marker } from "./chart-markers";

const mark = (x: number): Marker => ({
  key: String(x),
  kind: "checkpoint",
  x,
  colour: "--series-1",
  text: `Step ${String(x)}`,
  to: "/",
});
const place = { left: 48, top: 8, width: 100, height: 180, min: 0, max: 100 };

test("marks that would cover each other stand as one, and those outside of a zoom are left out", () => {
  const found = clustersOf([mark(50), mark(0), mark(10), mark(100), mark(17)], place);
  expect(found.map(({ px, markers }) => [px, markers.map(({ x }) => x)])).toEqual([
    [0, [0]],
    [10, [10, 17]],
    [50, [50]],
    [100, [100]],
  ]);
  const zoomed = clustersOf([mark(0), mark(10), mark(17)], { ...place, min: 5, max: 25 });
  expect(zoomed.map(({ px }) => px)).toEqual([25, 60]);
  expect(clustersOf([mark(1)], { ...place, min: 1, max: 1 })).toEqual([]);
});

test("of many marks in one place the first are named and the others counted", () => {
  const marks = Array.from({ length: 10 }, (_, at) => mark(at));
  expect(markersText(marks.slice(0, 2))).toBe("Step 0\nStep 1");
  expect(markersText(marks).split("\n").slice(-2)).toEqual(["Step 7", "and 2 more"]);
});

test("of what happened in one place each kind has its colour once", () => {
  expect(coloursOf([mark(1), { ...mark(2), colour: "--series-5" }, mark(3)])).toEqual([
    "--series-1",
    "--series-5",
  ]);
});
