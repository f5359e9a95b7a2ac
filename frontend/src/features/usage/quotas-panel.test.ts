import { expect, test } from "vitest";
import type { Held } from "../../api/types";
import { quotaRows } from "./quotas-panel";

function full(devices: Held): boolean | undefined {
  const free = { used: 0, limit: null };
  return quotaRows({ devices, sessions: free, storage_bytes: free })[0]?.isFull;
}

test("a quota is full when nothing more can be had, and none is where there is no limit", () => {
  expect(full({ used: 3, limit: null })).toBe(false);
  expect(full({ used: 3, limit: 4 })).toBe(false);
  expect(full({ used: 4, limit: 4 })).toBe(true);
  expect(full({ used: 5, limit: 4 })).toBe(true); // it was lowered since
});
