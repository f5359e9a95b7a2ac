import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, test } from "vitest";
import { SortedTable, type SortedColumn } from "./sorted-table";

interface Person {
  name: string;
  reward: number | null;
}
const HEAD: SortedColumn<Person>[] = [
  { name: "Name", value: (row) => row.name, searched: true },
  { name: "Reward", right: true, value: (row) => row.reward },
  { name: "" },
];
const PEOPLE: Person[] = [
  { name: "run 10", reward: 0.5 },
  { name: "run 9", reward: null },
  { name: "run 2", reward: -1 },
];

function shown(
  address: string,
  rows: Person[] = PEOPLE,
  containing = "",
): { names: string[]; sorts: (string | undefined)[]; html: string } {
  const children = (row: Person) =>
    createElement("tr", { key: row.name }, createElement("td", null, row.name));
  const table = createElement(SortedTable<Person>, {
    label: "Runs",
    head: HEAD,
    rows,
    containing,
    children,
  });
  const html = renderToStaticMarkup(
    createElement(MemoryRouter, { initialEntries: [`/${address}`] }, table),
  );
  return {
    names: [...html.matchAll(/<td>([^<]*)<\/td>/g)].map(([, name]) => name ?? ""),
    sorts: [...html.matchAll(/aria-sort="(\w+)"/g)].map(([, sort]) => sort),
    html,
  };
}

test("the address says what it is sorted by, and what has no value comes last", () => {
  expect(shown("")).toMatchObject({ names: ["run 10", "run 9", "run 2"], sorts: ["none", "none"] });
  expect(shown("?by=Name")).toMatchObject({
    names: ["run 2", "run 9", "run 10"],
    sorts: ["ascending", "none"],
  });
  expect(shown("?by=Reward").names).toEqual(["run 2", "run 10", "run 9"]);
  expect(shown("?by=-Reward")).toMatchObject({
    names: ["run 10", "run 2", "run 9"],
    sorts: ["none", "descending"],
  });
  expect(shown("?by=Nothing").names).toEqual(shown("").names);
  expect(shown("?by=-Reward").html).toContain('<option value="descending Reward" selected="">'); // where rows are cards
});

test("names without a digit are sorted in any case", () => {
  const named = ["beta", "Gamma", "alpha", "Delta"].map((name) => ({ name, reward: null }));
  expect(shown("?by=Name", named).names).toEqual(["alpha", "beta", "Delta", "Gamma"]);
  expect(shown("?by=-Name", named).names).toEqual(["Gamma", "Delta", "beta", "alpha"]);
});

test("a text narrows it, in any case, by the columns that are searched", () => {
  expect(shown("?by=Name", PEOPLE, " RUN 1").names).toEqual(["run 10"]);
  expect(shown("", PEOPLE, "-1").names).toEqual([]);
  expect(shown("", PEOPLE, "nobody").names).toEqual([]);
});

test("of a long table the first rows stand there, and what finds the others looks through all", () => {
  const many = Array.from({ length: 301 }, (_, at) => ({
    name: `m${String(at)}@example.org`,
    reward: at,
  }));
  const { names, html } = shown("", many);
  expect(names).toHaveLength(50);
  expect(html).toContain("Show all 301");
  expect(shown("", many, "m300@").names).toEqual(["m300@example.org"]);
  expect(shown("", many, "m300@").html).not.toContain("Show all");
});
