import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, test } from "vitest";
import { GROUPS, MAIN } from "../detail/plots";
import { found, WordsPage } from "./words-page";
import { Word, wordKey } from "../../../ui/word";
import { WORDS } from "../../../ui/words";

test("each word has an explanation", () => {
  for (const { what } of Object.values(WORDS)) expect(what.length).toBeGreaterThan(20);
});

test("every chart of a run has its word", () => {
  const titles = [...MAIN, ...GROUPS.flatMap(({ plots }) => plots)].map(({ title }) => title);
  expect(titles.filter((title) => wordKey(title) === null)).toEqual([]);
});

test("a word is a button that can be reached, and any other text stays text", () => {
  expect(renderToStaticMarkup(createElement(Word, { text: "Entropy" }))).toMatch(
    /^<button type="button".*>Entropy<\/button>$/,
  );
  expect(
    ["turns", "toString", ""].map((text) => renderToStaticMarkup(createElement(Word, { text }))),
  ).toEqual(["turns", "toString", ""]);
});

test("the page of words has every word and every option, and narrows both by what is typed", () => {
  const page = (address: string) =>
    renderToStaticMarkup(
      createElement(MemoryRouter, { initialEntries: [address] }, createElement(WordsPage)),
    );
  const all = page("/words");
  for (const { name } of Object.values(WORDS)) expect(all).toContain(`>${name}</dt>`);
  expect(all).toContain(">grpo_n</dt>");
  const narrowed = page("/words?q=staleness");
  expect(narrowed).toContain(">Staleness</dt>");
  expect(narrowed).toContain(">max_staleness</dt>");
  expect(narrowed).not.toContain(">Reward</dt>");
  expect(page("/words?q=zzz")).toContain("No word or option matches");
  expect(found(["Loss", "KL"], (text) => text, " lo ")).toEqual(["Loss"]);
});
