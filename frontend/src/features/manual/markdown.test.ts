import { expect, test } from "vitest";
import { anchorOf } from "../../api/manual";
import { blocksOf, piecesOf, targetOf } from "./markdown";

test("a page is headings, texts, lists, tables and code, as it is written", () => {
  const page =
    "# Serve\n\nOne line\nand its end.\n\n- first\n  goes on\n- second\n\n1. one\n\n| a | `b|c` |\n| --- | --- |\n| 1 | x\\|y |\n\n```sh\n# no heading\n```\n## By `curl`\n";
  expect(blocksOf(page)).toEqual([
    { kind: "heading", level: 1, text: "Serve", id: "serve" },
    { kind: "text", text: "One line and its end." },
    { kind: "list", isOrdered: false, items: ["first goes on", "second"] },
    { kind: "list", isOrdered: true, items: ["one"] },
    { kind: "table", head: ["a", "`b|c`"], rows: [["1", "x|y"]] },
    { kind: "code", text: "# no heading" },
    { kind: "heading", level: 2, text: "By `curl`", id: "by-curl" },
  ]);
});

test("a text is words, code, strong words, links and pictures; a tag is a word", () => {
  expect(piecesOf("Use `a*b` or **b**, see [c](d.md#e) ![f](g.svg) <script>")).toEqual([
    { kind: "plain", text: "Use " },
    { kind: "code", text: "a*b" },
    { kind: "plain", text: " or " },
    { kind: "strong", text: "b" },
    { kind: "plain", text: ", see " },
    { kind: "link", text: "c", to: "d.md#e" },
    { kind: "plain", text: " " },
    { kind: "picture", text: "f", to: "g.svg" },
    { kind: "plain", text: " <script>" },
  ]);
  expect(piecesOf("*Share of the loss* is 2*3*4, **b**")).toEqual([
    { kind: "emphasis", text: "Share of the loss" },
    { kind: "plain", text: " is 2*3*4, " },
    { kind: "strong", text: "b" },
  ]);
  expect(anchorOf("Groups that teach nothing")).toBe("groups-that-teach-nothing");
});

test("a link leads to the page that it names from its own folder, elsewhere, or nowhere", () => {
  const known = ["training", "howto/runs"];
  expect(targetOf("howto/runs", "../training.md#loss", known)).toEqual({
    inside: "/manual/training#loss",
  });
  expect(targetOf("howto/runs", "#top", known)).toEqual({ inside: "/manual/howto/runs#top" });
  expect(targetOf("training", "https://example.org/a", known)).toEqual({
    outside: "https://example.org/a",
  });
  expect(targetOf("training", "javascript:alert(1)", known)).toBeNull();
  expect(targetOf("training", "decisions/uvicorn.md", known)).toBeNull();
});
