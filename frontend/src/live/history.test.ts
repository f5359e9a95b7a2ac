import { expect, test, vi } from "vitest";
import type { Event, MetricColumns } from "../api/types";
import { historyBegin, historyTake, isKnown, recordOf } from "./history";
import { firstLink } from "./follow";
import { applyPage } from "./record";

const columns: MetricColumns = {
  axis: "step",
  x: [5, 10],
  steps: [5, 10],
  columns: {
    reward_mean: { last: [0.25, 0.75], low: [0, 0.5], high: [0.5, 1] },
    loss: { last: [1, null], low: [1, null], high: [1, null] },
  },
  steps_in_all: 10,
  cursor: 40,
};

function event(cursor: number, name: string): Event {
  return { cursor, kind: "event", at: "2030-01-01T00:00:00Z", data: { name } } as Event;
}

test("points stand as steps, and what came after their cursor is left to the live channel", () => {
  const record = recordOf(columns, {
    items: [event(12, "early"), event(40, "last"), event(41, "late")],
    next_cursor: 41,
  });
  expect(record.steps).toEqual([
    { step: 5, reward_mean: 0.25, loss: 1, metrics: {} },
    { step: 10, reward_mean: 0.75, loss: null, metrics: {} },
  ]);
  expect(record.timeline.map((entry) => entry.title)).toEqual(["early", "last"]);
  expect(record.cursor).toBe(40);
  const next = applyPage(record, { items: [event(41, "late")], next_cursor: 41 });
  expect(next.timeline.map((entry) => entry.title)).toEqual(["early", "last", "late"]);
});

test("a history that could not be read is waited for while the live channel may bring it", () => {
  const live = { isFollowed: true, link: firstLink, hasPage: false };
  const refused = { status: "refused" as const, reason: "No." };
  expect([isKnown("pending", live), isKnown("read", live), isKnown("failed", live)]).toEqual([
    false,
    true,
    false,
  ]);
  expect(isKnown("failed", { ...live, link: refused })).toBe(true);
  expect(isKnown("failed", { ...live, hasPage: true })).toBe(true);
  expect(isKnown("failed", { ...live, isFollowed: false })).toBe(true);
});

test("what was asked for before the page is taken by it once", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (request: Request) => {
    asked.push(new URL(request.url).pathname);
    const body = request.url.includes("/metrics") ? columns : { items: [], next_cursor: 0 };
    return Promise.resolve(
      new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" } }),
    );
  });
  const metrics = () => asked.filter((path) => path === "/v1/sessions/ses_1/metrics").length;
  historyBegin("ses_1");
  expect((await historyTake("ses_1")).cursor).toBe(40);
  expect(metrics()).toBe(1);
  expect((await historyTake("ses_1")).steps).toHaveLength(2);
  expect(metrics()).toBe(2);
});
