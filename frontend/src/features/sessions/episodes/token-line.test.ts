import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Piece, textAt, wholeAt } from "./token-line";

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

test("a line feed has a mark that can carry a colour, and stays what it is when it is copied", () => {
  const shown = (text: string) => renderToStaticMarkup(createElement(Piece, { text }));
  expect(shown("a\n\nb")).toBe(
    'a<span data-newline="true"></span>\n<span data-newline="true"></span>\nb',
  );
  expect(shown("plain")).toBe("plain");
});
