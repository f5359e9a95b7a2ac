// What a person should look at in the project's runs, and what they have seen of it.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";

const SHOWN = 30;
const REFRESH_MS = 15_000;

export const alertsQuery = queryOptions({
  queryKey: ["alerts"],
  queryFn: () => unwrap(api.GET("/v1/alerts", { params: { query: { limit: SHOWN } } })),
  refetchInterval: REFRESH_MS,
});

/** Those of all runs that are not over. */
export const standingAlertsQuery = queryOptions({
  queryKey: ["alerts", "standing"],
  queryFn: () =>
    unwrap(api.GET("/v1/alerts", { params: { query: { limit: SHOWN, standing: true } } })),
  refetchInterval: REFRESH_MS,
});

/** Those of a run that are not over: a few of each rule at most. */
export function sessionAlertsQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id, "alerts"],
    queryFn: () =>
      unwrap(
        api.GET("/v1/sessions/{session_id}/alerts", {
          params: { path: { session_id: id }, query: { standing: true, limit: 100 } },
        }),
      ),
  });
}

export function readAlerts(upto: number): Promise<void> {
  return unwrap(api.POST("/v1/alerts/read", { body: { upto } }));
}
