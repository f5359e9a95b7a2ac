// What a person should look at in the project's runs, what they have seen of it, and the project's own rules.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { at } from "./sessions";
import type { MetricRule, MetricRuleCreate } from "./types";

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
      unwrap(api.GET("/v1/sessions/{session_id}/alerts", at(id, { standing: true, limit: 100 }))),
  });
}

export function readAlerts(upto: number): Promise<void> {
  return unwrap(api.POST("/v1/alerts/read", { body: { upto } }));
}

export const alertRulesQuery = queryOptions({
  queryKey: ["alert-rules"],
  queryFn: () => unwrap(api.GET("/v1/alert-rules")),
});

/** A new rule where `id` is null. */
export function saveRule({
  id,
  body,
}: {
  id: string | null;
  body: MetricRuleCreate;
}): Promise<MetricRule> {
  if (id === null) return unwrap(api.POST("/v1/alert-rules", { body }));
  return unwrap(
    api.PATCH("/v1/alert-rules/{rule_id}", { params: { path: { rule_id: id } }, body }),
  );
}

export function deleteRule(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/alert-rules/{rule_id}", { params: { path: { rule_id: id } } }));
}
