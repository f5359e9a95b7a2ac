import { expect, test } from "vitest";
import { textAt, wholeAt } from "./token-line";

test("a token with a part of a character stands where its whole character does", () => {
  const run = {
    pieces: ["a", "", "", "👩", "b", ""],
    split_bytes: { 1: "f0", 2: "9f91", 3: "a9", 5: "d8" },
  };
  expect([0, 1, 2, 3, 4, 5].map((at) => wholeAt(run, at))).toEqual([0, 3, 3, 3, 4, 5]);
  expect([0, 1, 2, 3, 4, 5].map((at) => textAt(run, at))).toEqual([
    null,
    "",
    "",
    null,
    null,
    "⟨d8⟩",
  ]);
  expect(textAt({ pieces: ["", "x"], split_bytes: { 0: "e2 82" } }, 0)).toBe("⟨e2 82⟩"); // its character never comes
});
