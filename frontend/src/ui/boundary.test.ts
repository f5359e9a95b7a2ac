import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { isLoadError, Boundary, PartBoundary, PartError } from "./boundary";

test("what did not arrive is told from what failed", () => {
  for (const said of [
    "Failed to fetch dynamically imported module: http://x/a.js",
    "error loading dynamically imported module: http://x/a.js",
    "Importing a module script failed.",
    "Unable to preload CSS for /a.css",
  ]) {
    expect(isLoadError(new TypeError(said)), said).toBe(true);
  }
  expect(isLoadError(new TypeError("x is undefined"))).toBe(false);
  expect(isLoadError("dynamically imported module")).toBe(false);
});

const again = () => undefined;
const shown = (error: unknown) =>
  renderToStaticMarkup(createElement(PartError, { name: "Events", error, again }));

test("a part that fails is named with its own error, and can be tried again", () => {
  const html = shown(new TypeError("rows is not iterable"));
  expect(html).toContain("“Events” could not be shown");
  expect(html).toContain("TypeError: rows is not iterable");
  expect(html).toContain("Try again");
  expect(shown("a text")).toContain("a text");
});

test("code that did not arrive is left to the page, which loads it again", () => {
  const lost = new TypeError("Failed to fetch dynamically imported module: /assets/x.js");
  expect(() => shown(lost)).toThrow(lost);
});

test("a failure is kept, also one without a value, and a part without one is drawn", () => {
  expect(Boundary.getDerivedStateFromError(null).error).toBeInstanceOf(Error);
  expect(
    renderToStaticMarkup(createElement(PartBoundary, { name: "Events", children: "rows" })),
  ).toBe("rows");
});
