import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { spendingQuery } from "../../../api/usage";
import type { Spending } from "../../../api/types";
import { limitRows, SpendingRows } from "./budget-panel";

const PRICES = { currency: "EUR", gpu: 2.5, cpu: 0.1 };
const NONE: Spending = {
  runtime_s: 3600,
  device_s: 7200,
  cost: null,
  cost_per_hour: null,
  prices: null,
  limits: [],
};
const PRICED: Spending = {
  ...NONE,
  cost: 5,
  cost_per_hour: 5,
  prices: PRICES,
  limits: [
    { limit: "steps", allowed: 100, used: 25, left_s: 10_800, cost_at_limit: 20 },
    { limit: "wall_s", allowed: 14_400, used: 7200, left_s: 7200, cost_at_limit: 15 },
    { limit: "hours", allowed: 24, used: 1.5, left_s: null, cost_at_limit: null },
  ],
};

const shown = (spending: Spending, learns = true) =>
  renderToStaticMarkup(createElement(SpendingRows, { spending, learns }));

test("a limit has what is used of it, when it is reached, and what the run will have cost then", () => {
  expect(limitRows(PRICED)).toEqual([
    {
      name: "Steps",
      share: 0.25,
      used: "25 of 100",
      forecast: "reached after another 3 h at the pace so far, having cost €20.00",
    },
    {
      name: "Wall time",
      share: 0.5,
      used: "2 h of 4 h",
      forecast: "reached in 2 h, having cost €15.00",
    },
    {
      name: "Runtime, limit of this server",
      share: 1.5 / 24,
      used: "1 h 30 min of 1 d",
      forecast: "",
    },
  ]);
});

test("money is shown where there are prices, and nowhere else", () => {
  expect(shown(PRICED)).toContain("€5.00");
  expect(shown(PRICED)).toContain("€5.00 an hour");
  const without = shown({
    ...NONE,
    limits: [{ limit: "device_s", allowed: 14_400, used: 7200, left_s: 3600, cost_at_limit: null }],
  });
  expect(without).toContain("2 h of 4 h");
  expect(without).not.toMatch(/€|Cost|cost/);
});

test("a served model writes no checkpoint when it stops at a limit", () => {
  expect(shown(PRICED)).toContain("writes a model checkpoint");
  expect(shown(PRICED, false)).toContain("At a limit it stops.");
});

test("what is shown of a run that ends while its page is open is read once more", () => {
  expect(spendingQuery("ses_1", false).queryKey).not.toEqual(spendingQuery("ses_1", true).queryKey);
});

test("a run without a limit on a server without prices has nothing to show", () => {
  expect(shown(NONE)).toBe("");
});
