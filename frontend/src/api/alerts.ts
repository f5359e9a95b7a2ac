// What a person should look at in the project's runs, and what they have seen of it.
import { queryOptions } from "@tanstack/react-query";
import { get, post } from "./client";
import type { AlertPage } from "./types";

const SHOWN = 30;
const REFRESH_MS = 15_000;

export const alertsQuery = queryOptions({
  queryKey: ["alerts"],
  queryFn: () => get<AlertPage>(`/v1/alerts?limit=${String(SHOWN)}`),
  refetchInterval: REFRESH_MS,
});

/** Those of a run that are not over: a few of each rule at most. */
export function sessionAlertsPath(id: string): string {
  return `/v1/sessions/${id}/alerts?standing=true&limit=100`;
}

export function sessionAlertsQuery(id: string) {
  return queryOptions({ queryKey: ["session", id, "alerts"], queryFn: () => get<AlertPage>(sessionAlertsPath(id)) });
}

export function readAlerts(upto: number): Promise<void> {
  return post("/v1/alerts/read", { upto });
}
