// What a session's record holds when its page is opened, in three requests however long it is: the steps put together
// to as many points as a chart shows, the last state changes and events, the last evaluations. The live channel goes on from there.
import { get } from "../api/client";
import { stepsOf } from "../api/metrics";
import type { EventPage, MetricColumns } from "../api/types";
import { applyPage, emptyRecord, KEPT_ENTRIES, type SessionRecord } from "./record";

const POINTS = 1000;

export async function historyLoad(sessionId: string): Promise<SessionRecord> {
  const path = `/v1/sessions/${sessionId}`;
  // In this order: what is recorded between them stands after the cursor of the first.
  const columns = await get<MetricColumns>(`${path}/metrics?points=${String(POINTS)}`);
  const events = await get<EventPage>(`${path}/events?newest=true&kind=state&kind=event&limit=${String(KEPT_ENTRIES)}`);
  const evaluations = await get<EventPage>(`${path}/events?newest=true&kind=evaluation&limit=${String(KEPT_ENTRIES)}`);
  return recordOf(columns, { ...events, items: [...events.items, ...evaluations.items].sort((a, b) => a.cursor - b.cursor) });
}

/** Entries after the cursor of the columns are left to the live channel. */
export function recordOf(columns: MetricColumns, events: EventPage): SessionRecord {
  const known = events.items.filter((item) => item.cursor <= columns.cursor);
  const record = applyPage({ ...emptyRecord, steps: stepsOf(columns) }, { items: known, next_cursor: columns.cursor });
  return { ...record, cursor: columns.cursor };
}
