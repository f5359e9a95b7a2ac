import { describe, expect, it } from "vitest";
import { ApiError } from "./errors";
import { isUsed, missingWorkers, nextAfterMs } from "./tasks";
import type { Session, TaskCounts } from "./types";

const session = (state: Session["state"]) => ({ state }) as Session;
const counts = (some: Partial<TaskCounts>): TaskCounts => ({
  waiting: 0,
  running: 0,
  done: 0,
  failed: 0,
  workers: 0,
  waiting_judged: 0,
  running_judged: 0,
  failures: [],
  ...some,
});

describe("the queue of tasks", () => {
  it("is looked at often while attempts wait or run, seldom else, and not after the end", () => {
    expect(nextAfterMs(session("ready"), counts({ running: 1 }), null)).toBe(2_000);
    expect(nextAfterMs(session("ready"), counts({ done: 3 }), null)).toBe(10_000);
    expect(nextAfterMs(session("ready"), undefined, null)).toBe(10_000);
    expect(nextAfterMs(session("stopped"), counts({ waiting: 1 }), null)).toBe(false);
    expect(nextAfterMs(session("ready"), undefined, new ApiError(404, "not_found", "gone"))).toBe(
      false,
    );
  });

  it("is shown once an attempt was put there", () => {
    expect(isUsed(counts({}))).toBe(false);
    expect(isUsed(counts({ failed: 1 }))).toBe(true);
  });

  it("misses a worker of each kind that waits and that no one plays", () => {
    expect(missingWorkers(counts({ waiting: 3, waiting_judged: 1 }))).toEqual(["plain", "judged"]);
    expect(
      missingWorkers(counts({ waiting: 1, waiting_judged: 1, running: 2, workers: 1 })),
    ).toEqual(["judged"]);
    expect(
      missingWorkers(counts({ waiting: 2, running: 4, running_judged: 4, workers: 1 })),
    ).toEqual(["plain"]);
    expect(missingWorkers(counts({ waiting: 2, running: 1, workers: 1 }))).toEqual([]);
  });
});
