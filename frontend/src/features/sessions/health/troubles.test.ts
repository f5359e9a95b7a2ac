import { expect, test } from "vitest";
import type { Event } from "../../../api/types";
import { restartsOf, troublesOf } from "./troubles";

function entry(cursor: number, kind: Event["kind"], data: Record<string, unknown>): Event {
  return { cursor, kind, at: "2030-01-01T00:00:00Z", data };
}

test("restarts, faults and stacks are told, newest first, and nothing else", () => {
  const record = [
    entry(1, "state", { from: "", to: "queued", reason: "created" }),
    entry(2, "event", { name: "checkpoint_committed" }),
    entry(3, "event", { name: "stuck", cause: "training step 1: no progress for 600 s", hint: "Look.", stacks: "== runtime ==\nThread 1" }),
    entry(4, "state", { from: "ready", to: "queued", reason: "the runtime's process ended" }),
    entry(5, "state", { from: "ready", to: "ready", phase: "saving" }),
    entry(6, "event", { name: "runtime_fault", cause: "boom", trace: "Traceback" }),
  ];
  expect(troublesOf(record).map((one) => [one.cursor, one.title, one.text, one.trace])).toEqual([
    [6, "runtime fault", "boom", "Traceback"],
    [4, "Restarted", "the runtime's process ended", ""],
    [3, "stuck", "training step 1: no progress for 600 s Look.", "== runtime ==\nThread 1"],
  ]);
  expect(restartsOf(record)).toBe(1);
});
