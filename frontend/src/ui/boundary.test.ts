import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Boundary, PartBoundary, PartError } from "./boundary";

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
