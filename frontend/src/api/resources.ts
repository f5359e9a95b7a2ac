// What a run's runtimes used of their machines, and the entries of its record that tell how it fared.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { eventsPage } from "./events";
import { isFinal } from "./sessions";

const POINTS = 1000;
const REFRESH_MS = 10_000;
export const HEALTH_ENTRIES = 1000;

export function resourcesQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "resources"],
    queryFn: () =>
      unwrap(
        api.GET("/v1/sessions/{session_id}/resources", {
          params: { path: { session_id: id }, query: { points: POINTS } },
        }),
      ),
    retry: (failures, error) => failures < 2 && !isFinal(undefined, error),
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

/** The last state changes, phases and events, oldest first. */
export function healthEventsQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "health"],
    queryFn: () =>
      eventsPage(id, { newest: true, kind: ["state", "event"], limit: HEALTH_ENTRIES }),
    retry: (failures, error) => failures < 2 && !isFinal(undefined, error),
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}
