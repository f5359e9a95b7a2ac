import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { closure, pagesIn, pattern, script } from "./route-preload";

test("every page is found, however its entry is laid out", () => {
  const source = readFileSync("src/pages.ts", "utf8");
  const paths = [...source.matchAll(/path: "([^"*]+)"/g)].map(([, path]) => path);
  expect(pagesIn(source).map(([path]) => path)).toEqual(paths);
  expect(paths.length).toBeGreaterThan(20);
});

test("a page's code is all that it imports, but for what is there already", () => {
  const all = [
    { fileName: "page.js", imports: ["table.js", "index.js"] },
    { fileName: "table.js", imports: ["icon.js", "page.js"] },
    { fileName: "icon.js", imports: [] },
    { fileName: "index.js", imports: [] },
  ];
  const find = (name: string) => all.find(({ fileName }) => fileName === name);
  expect(
    closure(
      { fileName: "page.js", imports: ["table.js", "index.js"] },
      find,
      new Set(["index.js"]),
    ),
  ).toEqual(["page.js", "table.js", "icon.js"]);
});

test("a path is matched as the router does, the first of them that fits", () => {
  expect(new RegExp(pattern("/sessions/:id/steps/:step")).test("/sessions/ses_1/steps/3")).toBe(
    true,
  );
  expect(new RegExp(pattern("/sessions/:id")).test("/sessions/ses_1/steps/3")).toBe(false);
  expect(new RegExp(pattern("/sessions/:id")).test("/projects/prj_1/sessions/ses_1")).toBe(true);
  const made: string[] = [];
  const run = (pathname: string) => {
    made.length = 0;
    const document = {
      createElement: () => ({}),
      head: { append: (link: { href: string }) => made.push(link.href) },
    };
    new Function(
      "location",
      "document",
      script([
        ["/sessions/new", ["new.js", "ui.js"]],
        ["/sessions/:id", ["run.js", "ui.js"]],
      ]),
    )({ pathname }, document);
    return [...made];
  };
  expect(run("/sessions/new")).toEqual(["/new.js", "/ui.js"]);
  expect(run("/sessions/ses_1")).toEqual(["/run.js", "/ui.js"]);
  expect(run("/signin")).toEqual([]);
});
