import { expect, test } from "vitest";
import { scopesText } from "./scopes";

test("what a key may do is told in the words of its form", () => {
  expect(scopesText(["sessions:read", "checkpoints:read"])).toBe(
    "See sessions, download checkpoints",
  );
  expect(scopesText([])).toBe("");
});
