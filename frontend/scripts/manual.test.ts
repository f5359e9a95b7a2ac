import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { manualEntry, manualPaths, picturesOf } from "./manual";

test("the pages of the menu are there in its order, without those that are made of code", () => {
  const paths = manualPaths(
    "docs_dir: docs\nnav:\n  - Start: index.md\n  - How to:\n      - Serve a model: howto/serving.md\n      - operations/index.md\n      - REST: reference/rest.md\n      - decisions/one.md\n",
  );
  expect(paths).toEqual([
    ["index.md", "Start"],
    ["howto/serving.md", "Serve a model"],
    ["operations/index.md", undefined],
    ["reference/rest.md", "REST"],
  ]);
  expect(manualPaths(readFileSync("../mkdocs.yml", "utf8")).length).toBeGreaterThan(25);
});

test("a page is known by its title and its headings, and a comment of code is none", () => {
  expect(
    manualEntry(
      "a/b.md",
      undefined,
      "# Serving\n\n## By `curl`\n\n```sh\n## no heading\n```\n### Keys\n",
    ),
  ).toEqual({ path: "a/b", title: "Serving", headings: ["By curl", "Keys"] });
  expect(manualEntry("a.md", "Menu", "# Page").title).toBe("Menu");
});

test("the pictures of a page travel with it, drawn ones and those of the console", () => {
  expect(
    picturesOf("howto/a.md", "![Curve](../curve.svg) and ![Page](b.webp), no [link](c.webp)"),
  ).toEqual(["curve.svg", "howto/b.webp"]);
});
