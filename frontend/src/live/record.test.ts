import { expect, test } from "vitest";
import type { Event, EventPage } from "../api/types";
import { applyPage, emptyRecord, type SessionRecord } from "./record";

function entry(cursor: number, kind: Event["kind"], data: Record<string, unknown>): Event {
  return { cursor, kind, at: "2030-01-01T00:00:00Z", data } as Event;
}

function page(...items: Event[]): EventPage {
  return { items, next_cursor: Math.max(0, ...items.map((item) => item.cursor)) };
}

function metric(cursor: number, step: number, reward_mean = 0): Event {
  return entry(cursor, "metric", { step, reward_mean });
}

const steps = (record: SessionRecord) => record.steps.map((step) => step.step);

test("a page that comes twice changes nothing", () => {
  const taken = applyPage(emptyRecord, page(metric(1, 1), entry(2, "log", { line: "a" })));
  expect(applyPage(taken, page(metric(1, 1), entry(2, "log", { line: "a" })))).toBe(taken);
});

test("an overlapping page adds only what is new", () => {
  const taken = applyPage(emptyRecord, page(metric(1, 1), metric(2, 2)));
  expect(steps(applyPage(taken, page(metric(2, 2), metric(3, 3))))).toEqual([1, 2, 3]);
});

test("a step done again after a restart replaces the one it repeats", () => {
  const taken = applyPage(emptyRecord, page(metric(1, 1), metric(2, 2, 0.1), metric(3, 3)));
  const again = applyPage(taken, page(metric(4, 2, 0.9)));
  expect(steps(again)).toEqual([1, 2, 3]);
  expect(again.steps[1]?.reward_mean).toBe(0.9);
});

test("the cursor follows the server past entries that were filtered out", () => {
  expect(applyPage(emptyRecord, { items: [], next_cursor: 9 }).cursor).toBe(9);
});

test("state changes and events share one timeline in order", () => {
  const record = applyPage(
    emptyRecord,
    page(
      entry(1, "state", { from: "queued", to: "provisioning", phase: "", reason: "capacity" }),
      entry(2, "event", {
        name: "checkpoint_committed",
        checkpoint_id: "ckp_1",
        step: 10,
        size_bytes: 2048,
      }),
    ),
  );
  expect(record.timeline.map((item) => [item.title, item.detail])).toEqual([
    ["queued → provisioning", "capacity"],
    ["checkpoint committed", "step 10 · 2.00 KiB"],
  ]);
});

test("a checkpoint that a client named is told by its path, and leads to no step", () => {
  const named = {
    name: "checkpoint_committed",
    checkpoint_id: "ckp_1",
    kind: "state",
    step: 7,
    size_bytes: 2048,
    path: "tinker://tnk_1:train:0/weights/end",
  };
  const [entry_] = applyPage(emptyRecord, page(entry(1, "event", named))).timeline;
  expect([entry_?.detail, entry_?.step]).toEqual([
    "kind state · 2.00 KiB · path tinker://tnk_1:train:0/weights/end",
    undefined,
  ]);
});

test("a refused step leads to its batch, and an event of a step to that step", () => {
  const refused = {
    name: "step_refused",
    step: 7,
    batch: "refused-1f",
    reason: "loss is not finite",
    episodes: ["ep_1"],
  };
  const record = applyPage(
    emptyRecord,
    page(entry(1, "event", refused), entry(2, "event", { name: "stuck", stacks: { main: "…" } })),
  );
  expect(record.timeline.map(({ batch, step }) => [batch, step])).toEqual([
    ["refused-1f", 7],
    [undefined, undefined],
  ]);
});

test("a new phase within a state is shown by its words", () => {
  const record = applyPage(
    emptyRecord,
    page(
      entry(1, "state", { from: "loading", to: "loading", phase: "loading weights", reason: "" }),
    ),
  );
  expect(record.timeline).toMatchObject([{ kind: "phase", title: "loading weights" }]);
});

test("memory is bounded however long the record", () => {
  const items = Array.from({ length: 3000 }, (_, index) =>
    entry(index + 1, "event", { name: String(index) }),
  );
  const record = applyPage(emptyRecord, page(...items));
  expect(record.timeline).toHaveLength(500);
  expect(record.timeline.at(-1)?.title).toBe("2999");
});

test("the budget that ended a session is remembered after its entry has left the list", () => {
  const data = { name: "budget_exhausted", limit: "steps", allowed: 2, used: 3 };
  let record = applyPage(emptyRecord, page(entry(1, "event", data)));
  record = applyPage(
    record,
    page(
      ...Array.from({ length: 600 }, (_, index) => entry(index + 2, "event", { name: "other" })),
    ),
  );
  expect(record.timeline.some((item) => item.title === "budget exhausted")).toBe(false);
  expect(record.budgetEnd).toEqual({ limit: "steps", allowed: 2, used: 3 });
});

test("evaluations are kept apart from what happened", () => {
  const record = applyPage(
    emptyRecord,
    page(entry(1, "evaluation", { name: "eval", step: 2, reward_mean: 0.5 })),
  );
  expect(record.evaluations.map((one) => [one.step, one.reward_mean])).toEqual([[2, 0.5]]);
  expect(record.timeline).toEqual([]);
});
