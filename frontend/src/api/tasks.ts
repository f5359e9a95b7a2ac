// The queue of tasks that workers pull from.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { at, hasEnded, isRefused } from "./sessions";
import type { Session, TaskCounts } from "./types";

const BUSY_MS = 2_000;
const IDLE_MS = 10_000;

/** Counts are no entries of the record: they are asked for again, less often while nothing is to be played. */
export function tasksQuery(session: Session) {
  return queryOptions({
    queryKey: ["session", session.id, "tasks"],
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}/tasks", at(session.id))),
    refetchInterval: ({ state }) => nextAfterMs(session, state.data, state.error),
  });
}

export function nextAfterMs(
  session: Session,
  counts: TaskCounts | undefined,
  error: Error | null,
): number | false {
  if (isRefused(error)) return false;
  if (counts && hasEnded(session)) return false;
  return counts && counts.waiting + counts.running > 0 ? BUSY_MS : IDLE_MS;
}

/** Attempts of any kind: a session that no one queued for has none. */
export function isUsed(counts: TaskCounts): boolean {
  return counts.waiting + counts.running + counts.done + counts.failed > 0;
}

export type TaskKind = "plain" | "judged";

/** The kinds of tasks that wait while no worker of their kind, which takes no others, has one. */
export function missingWorkers(counts: TaskCounts): TaskKind[] {
  const plain = {
    waiting: counts.waiting - counts.waiting_judged,
    running: counts.running - counts.running_judged,
  };
  const judged = { waiting: counts.waiting_judged, running: counts.running_judged };
  const isMissing = ({ waiting, running }: typeof plain) => waiting > 0 && running === 0;
  return [
    ...(isMissing(plain) ? (["plain"] as const) : []),
    ...(isMissing(judged) ? (["judged"] as const) : []),
  ];
}
