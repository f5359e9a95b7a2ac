import { expect, test } from "vitest";
import { isLoadError } from "./load-error";

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
