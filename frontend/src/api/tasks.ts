// The queue of tasks that workers pull from.
import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "./client";
import { ApiError } from "./errors";
import { hasEnded } from "./sessions";
import type { Session, TaskCounts } from "./types";

const BUSY_MS = 2_000;
const IDLE_MS = 10_000;

/** Counts are no entries of the record: they are asked for again, less often while nothing is to be played. */
export function tasksQuery(session: Session) {
  return queryOptions({
    queryKey: ["session", session.id, "tasks"],
    queryFn: () => answer(api.GET("/v1/sessions/{session_id}/tasks", { params: { path: { session_id: session.id } } })),
    refetchInterval: ({ state }) => nextAfterMs(session, state.data, state.error),
  });
}

export function nextAfterMs(session: Session, counts: TaskCounts | undefined, error: Error | null): number | false {
  if (error instanceof ApiError && error.status >= 400 && error.status < 500) return false;
  if (counts && hasEnded(session)) return false;
  return counts && counts.waiting + counts.running > 0 ? BUSY_MS : IDLE_MS;
}

/** Attempts of any kind: a session that no one queued for has none. */
export function isUsed(counts: TaskCounts): boolean {
  return counts.waiting + counts.running + counts.done + counts.failed > 0;
}
