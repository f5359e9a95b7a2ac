import { expect, test } from "vitest";
import type { Event } from "../api/types";
import { markOf, marksJoined } from "./marks";

const at = "2030-01-01T00:00:00Z";
const entry = (cursor: number, kind: Event["kind"], data: Record<string, unknown>) =>
  ({ cursor, kind, at, data }) as Event;

test("a committed checkpoint, a refused step, a restart and changed options are marks, and nothing else is", () => {
  const entries = [
    entry(1, "event", { name: "checkpoint_committed", step: 8, kind: "state" }),
    entry(2, "event", { name: "step_refused", step: 9, reason: "the loss is not finite" }),
    entry(3, "state", { from: "ready", to: "queued", reason: "the runtime ended" }),
    entry(4, "state", { from: "ready", to: "ready", phase: "training step 9" }),
    entry(5, "state", { from: "", to: "queued" }),
    entry(6, "event", { name: "checkpoint_requested", kind: "model" }),
    entry(7, "metric", { name: "step_refused", step: 1 }),
    entry(8, "event", {
      name: "config_changed",
      step: 9,
      options: { learning_rate: 2e-6, kl_coef: 0.1 },
      was: { learning_rate: null, kl_coef: 0.2 },
    }),
  ];
  expect(entries.map(markOf)).toEqual([
    { cursor: 1, at, kind: "checkpoint", step: 8, detail: "state" },
    { cursor: 2, at, kind: "refusal", step: 9, detail: "the loss is not finite" },
    { cursor: 3, at, kind: "restart", step: null, detail: "the runtime ended" },
    null,
    null,
    null,
    null,
    {
      cursor: 8,
      at,
      kind: "change",
      step: 9,
      detail: "learning_rate 0.000002, was its default; kl_coef 0.1, was 0.2",
    },
  ]);
});

test("marks that were read twice stand once, in the order of the record", () => {
  const mark = (cursor: number) => ({
    cursor,
    at,
    kind: "restart" as const,
    step: null,
    detail: "",
  });
  expect(marksJoined([mark(3), mark(5)], [mark(1), mark(3)]).map(({ cursor }) => cursor)).toEqual([
    1, 3, 5,
  ]);
});
