// What a session's record holds when its page is opened, in three requests however long it is: the steps put together
// to as many points as a chart shows, the last state changes and events, the last evaluations. The live channel goes on from there.
import { eventsPage, metricsRead, POINTS, stepsOf } from "../api/metrics";
import type { EventPage, MetricColumns } from "../api/types";
import type { Link } from "./follow";
import { applyPage, emptyRecord, KEPT_ENTRIES, type SessionRecord } from "./record";

async function historyLoad(sessionId: string): Promise<SessionRecord> {
  // After the columns: what is recorded meanwhile stands after their cursor.
  const columns = await metricsRead(sessionId, { points: POINTS });
  const [events, evaluations] = await Promise.all([
    eventsPage(sessionId, { newest: true, kind: ["state", "event"], limit: KEPT_ENTRIES }),
    eventsPage(sessionId, { newest: true, kind: ["evaluation"], limit: KEPT_ENTRIES }),
  ]);
  return recordOf(columns, {
    ...events,
    items: [...events.items, ...evaluations.items].sort((a, b) => a.cursor - b.cursor),
  });
}

const begun = new Map<string, Promise<SessionRecord>>();

/** Asks for it before its page is there, which takes it once. */
export function historyBegin(sessionId: string): void {
  const loading = historyLoad(sessionId);
  loading.catch(() => undefined); // whoever takes it is told
  begun.set(sessionId, loading);
}

export function historyTake(sessionId: string): Promise<SessionRecord> {
  const loading = begun.get(sessionId);
  begun.delete(sessionId);
  return loading ?? historyLoad(sessionId);
}

export type HistoryState = "pending" | "read" | "failed";

/** Whether nothing more of it is on its way. Where it could not be read, the live channel brings it, unless that is refused. */
export function isKnown(
  history: HistoryState,
  live: { isFollowed: boolean; link: Link; hasPage: boolean },
): boolean {
  if (history !== "failed") return history === "read";
  return !live.isFollowed || live.hasPage || live.link.status === "refused";
}

/** Entries after the cursor of the columns are left to the live channel. */
export function recordOf(columns: MetricColumns, events: EventPage): SessionRecord {
  const known = events.items.filter((item) => item.cursor <= columns.cursor);
  const record = applyPage(
    { ...emptyRecord, steps: stepsOf(columns), read: columns },
    { items: known, next_cursor: columns.cursor },
  );
  return { ...record, cursor: columns.cursor };
}
