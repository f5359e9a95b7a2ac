// What a run's runtimes used of their machines, and the entries of its record that tell how it fared.
import { queryOptions } from "@tanstack/react-query";
import { get } from "./client";
import { isFinal } from "./sessions";
import type { EventPage, ResourceColumns } from "./types";

const POINTS = 1000;
const REFRESH_MS = 10_000;
export const HEALTH_ENTRIES = 1000;

export function resourcesQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "resources"],
    queryFn: () => get<ResourceColumns>(`/v1/sessions/${id}/resources?points=${String(POINTS)}`),
    retry: (failures, error) => failures < 2 && !isFinal(undefined, error),
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

/** The last state changes, phases and events, oldest first. */
export function healthEventsQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "health"],
    queryFn: () => get<EventPage>(`/v1/sessions/${id}/events?newest=true&kind=state&kind=event&limit=${String(HEALTH_ENTRIES)}`),
    retry: (failures, error) => failures < 2 && !isFinal(undefined, error),
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}
