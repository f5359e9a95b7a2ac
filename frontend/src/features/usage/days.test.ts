import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import type { UsageDays } from "../../api/types";
import { barsOf, datesOf, periodOf, usageCsv } from "./day-bars";
import { Days } from "./days-panel";

const used = (device_s: number) => ({
  device_s,
  gpu_s: 0,
  runtime_s: device_s,
  cost: device_s / 3600,
});
const DAYS: UsageDays = {
  first: "2026-02-27",
  last: "2026-03-02",
  by: "key",
  days: [
    { date: "2026-02-28", id: null, ...used(60) },
    { date: "2026-02-28", id: "key_1", ...used(7200) },
    { date: "2026-03-02", id: "key_1", ...used(3600) },
  ],
  payers: [
    { id: "key_1", name: "=sweep, \u202e", ...used(10800), cap_s: 14_400, ever_s: 14_000 },
    { id: null, name: "started by hand", ...used(60), cap_s: null, ever_s: null },
  ],
  prices: { currency: "EUR", gpu: 2, cpu: 1 },
};

test("every day of a period has a bar, and who used most is at its foot", () => {
  expect(datesOf("2026-02-27", "2026-03-02")).toEqual([
    "2026-02-27",
    "2026-02-28",
    "2026-03-01",
    "2026-03-02",
  ]);
  const bars = barsOf(DAYS);
  expect(bars.map(({ seconds }) => seconds)).toEqual([0, 7260, 0, 3600]);
  expect(bars[1]?.parts.map(({ colour, seconds }) => [colour, seconds])).toEqual([
    [1, 7200],
    [2, 60],
  ]);
});

test("a period is so many days up to today, or between two days", () => {
  const now = Date.parse("2026-03-02T23:59:00Z");
  expect(periodOf(new URLSearchParams("days=7"), now)).toEqual({
    first: "2026-02-24",
    last: "2026-03-02",
  });
  expect(periodOf(new URLSearchParams("days=0&from=x"), now).first).toBe("2026-02-01");
  expect(periodOf(new URLSearchParams("from=2026-01-01&to=2026-01-02"), now)).toEqual({
    first: "2026-01-01",
    last: "2026-01-02",
  });
});

test("a spreadsheet has a row for each day and payer, and runs no name as a formula", () => {
  const [head, , row] = usageCsv(DAYS).split("\r\n");
  expect(head).toBe("date,id,key,device_s,gpu_s,runtime_s,cost_EUR");
  expect(row).toBe('2026-02-28,key_1,"\'=sweep, \u202e",7200,0,7200,2');
});

test("shares, costs and the budget of a key are told, and a hostile name is text", () => {
  const shown = renderToStaticMarkup(createElement(Days, { days: DAYS }));
  expect(shown).toMatch(
    /=sweep, ⟨U\+202E⟩.*3 h.*99 %.*€3\.00.*3 h 53 min of 4 h.*aria-valuenow="97"/s,
  );
  expect(shown).toContain("Device time by day, most on 2026-02-28: 2 h 1 min");
  expect(
    renderToStaticMarkup(
      createElement(Days, { days: { ...DAYS, days: [], payers: [], prices: null } }),
    ),
  ).toContain("Nothing was used in this period.");
});
