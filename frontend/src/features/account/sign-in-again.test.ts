import { expect, test } from "vitest";
import { holdsTyped } from "./sign-in-again";

test("a page is kept for what was typed on it, and for nothing else", () => {
  const page = (found: string[]) =>
    ({
      querySelector: (wanted: string) => (found.includes(wanted) ? {} : null),
    }) as unknown as ParentNode;
  expect(holdsTyped(page(["form[data-typed]"]))).toBe(true);
  expect(holdsTyped(page(["form"]))).toBe(false);
});
