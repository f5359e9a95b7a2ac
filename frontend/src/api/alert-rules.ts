// The project's own rules of alerts.
import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "./client";
import type { MetricRule, MetricRuleCreate } from "./types";

export const alertRulesQuery = queryOptions({
  queryKey: ["alert-rules"],
  queryFn: () => answer(api.GET("/v1/alert-rules")),
});

/** A new rule where `id` is null. */
export function saveRule({ id, body }: { id: string | null; body: MetricRuleCreate }): Promise<MetricRule> {
  if (id === null) return answer(api.POST("/v1/alert-rules", { body }));
  return answer(api.PATCH("/v1/alert-rules/{rule_id}", { params: { path: { rule_id: id } }, body }));
}

export function deleteRule(id: string): Promise<void> {
  return answer(api.DELETE("/v1/alert-rules/{rule_id}", { params: { path: { rule_id: id } } }));
}
