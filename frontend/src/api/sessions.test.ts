import { expect, test } from "vitest";
import { joinLogs } from "./sessions";
import type { SessionLogs } from "./types";

const page = (lines: string[], more: Partial<SessionLogs> = {}): SessionLogs => ({
  lines,
  cursor: "b",
  continues: false,
  is_cut: false,
  ...more,
});

test("what came since is added to a log, a line that was not finished is finished, and a bound is kept", () => {
  const before = page(["one", "tw"], { cursor: "a" });
  expect(joinLogs(before, page(["o", "three"], { continues: true }), 9)).toEqual(
    page(["one", "two", "three"]),
  );
  expect(joinLogs(before, page(["three"]), 2)).toEqual(page(["tw", "three"]));
  expect(joinLogs(before, page([]), 9)).toEqual(page(["one", "tw"]));
});

test("where lines between are gone, what was shown before does not stand above what there is", () => {
  expect(joinLogs(page(["old"]), page(["new"], { is_cut: true }), 9)).toEqual(
    page(["new"], { is_cut: true }),
  );
  expect(joinLogs(page(["old"], { is_cut: true }), page(["new"]), 9).is_cut).toBe(true);
});
