import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, test } from "vitest";
import type { Member } from "../../api/types";
import { SortedTable } from "../../ui/sorted-table";
import { MEMBER_COLUMNS } from "./members-page";

const ANN = {
  email: "Ann@example.org",
  role: "owner",
  created_at: "2026-11-01T10:00:00Z",
  is_invited: false,
} as Member;
const BOB = {
  email: "bob@lab.example.org",
  role: "viewer",
  created_at: "2026-11-02T10:00:00Z",
  is_invited: true,
} as Member;

function found(containing: string): string[] {
  const children = ({ email }: Member) =>
    createElement("tr", { key: email }, createElement("td", null, email));
  const table = createElement(SortedTable<Member>, {
    label: "Members",
    head: MEMBER_COLUMNS,
    rows: [ANN, BOB],
    containing,
    children,
  });
  return [
    ...renderToStaticMarkup(createElement(MemoryRouter, null, table)).matchAll(/<td>([^<]*)</g),
  ].map(([, email]) => email ?? "");
}

test("members are found by a part of their address, in any case, by their role or their state, and by nothing that is not shown", () => {
  expect(found(" ann ")).toEqual([ANN.email]);
  expect(found("lab.")).toEqual([BOB.email]);
  expect(found("viewer")).toEqual([BOB.email]);
  expect(found("invited")).toEqual([BOB.email]);
  expect(found("2026")).toEqual([]); // the table says "3 days ago"
  expect(found("  ")).toHaveLength(2);
});
