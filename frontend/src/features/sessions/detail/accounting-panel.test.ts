import { expect, test } from "vitest";
import type { Accounting } from "../../../api/types";
import { ledger } from "./accounting-panel";
import { policyText } from "./session-facts";

const counts: Accounting = {
  begun: 20,
  open: 2,
  waiting: 3,
  trained: 8,
  eval: 2,
  abandoned: 3,
  expired: 1,
  stale: 1,
  abandoned_by_reason: { superseded: 1, timeout: 2 },
};

test("the ledger balances when every begun episode is in one row", () => {
  expect(ledger(counts).balances).toBe(true);
});

test("a lost episode shows as an imbalance", () => {
  expect(ledger({ ...counts, trained: 7 }).balances).toBe(false);
});

test("reasons for abandoning come most frequent first", () => {
  expect(ledger(counts).reasons).toEqual([
    ["timeout", 2],
    ["superseded", 1],
  ]);
});

test("the page shows how old a trained sample may be", () => {
  expect([0, 1, 4].map(policyText)).toEqual([
    "newest weights only",
    "up to 1 version old",
    "up to 4 versions old",
  ]);
});
