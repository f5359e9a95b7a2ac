import { expect, test } from "vitest";
import { asked } from "../../../scripts/asked";
import { auditPage } from "../../api/audit";
import { filterOf, isFiltered } from "./audit-page";

test("an action is asked for as it is kept, and what is empty is not asked for", async () => {
  const filter = filterOf(new URLSearchParams("action=session+stop&actor=+ann%40x&target="));
  expect(isFiltered(filter)).toBe(true);
  expect(await asked(() => auditPage(filter, 7))).toEqual([
    "/v1/audit?limit=50&before=7&actor=ann%40x&action=session_stop",
  ]);
  expect(isFiltered(filterOf(new URLSearchParams()))).toBe(false);
});
