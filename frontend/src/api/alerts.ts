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

export function sessionAlertsQuery(id: string) {
  return queryOptions({ queryKey: ["session", id, "alerts"], queryFn: () => get<AlertPage>(`/v1/sessions/${id}/alerts?limit=20`) });
}

export function readAlerts(upto: number): Promise<void> {
  return post("/v1/alerts/read", { upto });
}
