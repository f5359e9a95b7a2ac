import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Piece } from "./piece";

test("a line feed has a mark that can carry a colour, and stays what it is when it is copied", () => {
  const shown = (text: string) => renderToStaticMarkup(createElement(Piece, { text }));
  expect(shown("a\n\nb")).toBe(
    'a<span data-newline="true"></span>\n<span data-newline="true"></span>\nb',
  );
  expect(shown("plain")).toBe("plain");
});
