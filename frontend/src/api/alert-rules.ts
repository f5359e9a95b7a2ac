// The project's own rules of alerts.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import type { MetricRule, MetricRuleCreate } from "./types";

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
