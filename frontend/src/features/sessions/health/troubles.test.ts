import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Event } from "../../../api/types";
import { FAULTS, troublesOf } from "./troubles";

// In an event's data, or as console/live/services.py's event_note takes it.
const WRITTEN = /"name": "(\w+)"|event_note\(\s*[\w.]+,\s*"(\w+)"/g;
const ROOT = new URL("../../../../../", import.meta.url).pathname;

function entry(cursor: number, kind: Event["kind"], data: Record<string, unknown>): Event {
  return { cursor, kind, at: "2030-01-01T00:00:00Z", data };
}

test("restarts, faults and stacks are told, newest first, and nothing else", () => {
  const record = [
    entry(1, "state", { from: "", to: "queued", reason: "created" }),
    entry(2, "event", { name: "checkpoint_committed" }),
    entry(3, "event", {
      name: "stuck",
      cause: "training step 1: no progress for 600 s",
      hint: "Look.",
      stacks: "== runtime ==\nThread 1",
    }),
    entry(4, "state", { from: "ready", to: "queued", reason: "the runtime's process ended" }),
    entry(5, "state", { from: "ready", to: "ready", phase: "saving" }),
    entry(6, "event", { name: "runtime_fault", cause: "boom", trace: "Traceback" }),
    entry(7, "event", {
      name: "checkpoint_failed",
      checkpoint_id: "ckp_1",
      reason: "its files are not what was said",
    }),
  ];
  expect(troublesOf(record).map((one) => [one.cursor, one.title, one.text, one.trace])).toEqual([
    [7, "checkpoint failed", "its files are not what was said", ""],
    [6, "runtime fault", "boom", "Traceback"],
    [4, "Restarted", "the runtime's process ended", ""],
    [3, "stuck", "training step 1: no progress for 600 s. Look.", "== runtime ==\nThread 1"],
  ]);
});

test("each fault is an event that the server or a runtime writes", () => {
  const written = ["console", "gpu_runtime"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".py"))
      .flatMap((path) =>
        [...readFileSync(join(ROOT, folder, path), "utf8").matchAll(WRITTEN)].map(
          ([, inData, noted]) => inData ?? noted,
        ),
      ),
  );
  expect(FAULTS.filter((name) => !written.includes(name))).toEqual([]);
});
