import { expect, test } from "vitest";
import type { Delivery } from "../../api/types";
import { outcome } from "./webhook-entry";

const NOW = Date.parse("2030-01-01T00:00:00Z");

function delivery(fields: Partial<Delivery>): Delivery {
  return {
    id: "dlv_1",
    topic: "session.state",
    state: "pending",
    attempts: 0,
    status: null,
    error: "",
    created_at: "2030-01-01T00:00:00Z",
    next_at: "2030-01-01T00:00:00Z",
    delivered_at: null,
    ...fields,
  };
}

test("what was not tried yet, or is being tried, is on its way", () => {
  expect(outcome(delivery({}), NOW)).toBe("on its way");
  expect(outcome(delivery({ attempts: 1, next_at: "2030-01-01T00:01:00Z" }), NOW)).toBe(
    "on its way",
  );
});

test("a try that failed shows the reason and when the next one is", () => {
  const failed = { attempts: 3, status: 500, error: "returned 500" };
  expect(outcome(delivery({ ...failed, next_at: "2030-01-01T00:02:00Z" }), NOW)).toBe(
    "returned 500, again in 2 min",
  );
  expect(outcome(delivery({ ...failed, next_at: "2029-12-31T23:59:59Z" }), NOW)).toBe(
    "returned 500, again now",
  );
});

test("a delivery that is over shows how it ended", () => {
  expect(
    outcome(delivery({ state: "delivered", attempts: 1, status: 204, next_at: null }), NOW),
  ).toBe("returned 204");
  expect(
    outcome(
      delivery({ state: "failed", attempts: 9, error: "no answer in time", next_at: null }),
      NOW,
    ),
  ).toBe("no answer in time, given up");
});
