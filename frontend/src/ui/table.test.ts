import { expect, test } from "vitest";
import { cssString } from "./table";

test("a name ends no string of CSS, and is one line", () => {
  expect(cssString("Reward, last")).toBe('"Reward, last"');
  expect(cssString('a" ; } b \\')).toBe('"a\\" ; } b \\\\"');
  expect(cssString("a\nb\tc")).toBe('"a b c"');
});
