import { expect, test } from "vitest";
import { rangeOf } from "./date-range";

test("both days are whole, and nonsense is no day", () => {
  const { since, until } = rangeOf(new URLSearchParams("from=2026-11-02&to=2026-11-02"));
  expect(Date.parse(until) - Date.parse(since)).toBe(24 * 3_600_000);
  expect(new Date(since).getDate()).toBe(2);
  expect(rangeOf(new URLSearchParams("from=2026-13-41&to=yesterday"))).toEqual({
    since: "",
    until: "",
  });
});
