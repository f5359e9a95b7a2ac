import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Event, EventPage } from "../api/types";
import { EVERY_MS, refresher, type Moved } from "./refresh";

const page = (...kinds: Event["kind"][]) =>
  ({
    items: kinds.map((kind, at) => ({ kind, cursor: at + 1 })),
    next_cursor: kinds.length,
  }) as EventPage;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function reads() {
  const all: Moved[][] = [];
  const read = (moved: ReadonlySet<Moved>) => {
    all.push([...moved]);
    return Promise.resolve();
  };
  return { all, ...refresher(read) };
}

test("what moved is read at once, and a burst after it once a second, with nothing left out", async () => {
  const { all, page: taken } = reads();
  taken(page("metric"));
  expect(all).toEqual([["session"]]);
  for (let at = 0; at < 500; at += 1)
    taken(page("metric", ...(at === 7 ? (["event"] as const) : [])));
  expect(all).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect(all).toEqual([["session"], ["session", "checkpoints"]]);
  await vi.advanceTimersByTimeAsync(10 * EVERY_MS);
  expect(all).toHaveLength(2);
  taken(page("state"));
  expect(all).toHaveLength(3);
});

test("the log moves nothing, and nothing is read after the end", async () => {
  const { all, page: taken, stop } = reads();
  taken(page("log"));
  taken(page());
  expect(all).toEqual([]);
  taken(page("event"));
  taken(page("event"));
  stop();
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect(all).toHaveLength(1);
});

test("a read that takes longer than a second is waited for, and what moved meanwhile is read after it", async () => {
  const waiting: (() => void)[] = [];
  const { page: taken, stop } = refresher(
    () => new Promise<void>((resolve) => waiting.push(resolve)),
  );
  for (let at = 0; at < 5; at += 1) {
    taken(page("metric"));
    await vi.advanceTimersByTimeAsync(EVERY_MS);
  }
  expect(waiting).toHaveLength(1);
  waiting[0]?.();
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect(waiting).toHaveLength(2);
  taken(page("metric"));
  stop();
  waiting[1]?.();
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect(waiting).toHaveLength(2);
});
