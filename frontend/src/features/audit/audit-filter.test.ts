import { expect, test } from "vitest";
import { auditPath } from "../../api/audit";
import { filterOf, isFiltered } from "./audit-filter";

test("an action is asked for as it is kept, and what is empty is not asked for", () => {
  const filter = filterOf(new URLSearchParams("action=session+stop&actor=+ann%40x&target="));
  expect(isFiltered(filter)).toBe(true);
  expect(auditPath(filter, 7)).toBe("/v1/audit?limit=50&actor=ann%40x&action=session_stop&before=7");
  expect(isFiltered(filterOf(new URLSearchParams()))).toBe(false);
});
