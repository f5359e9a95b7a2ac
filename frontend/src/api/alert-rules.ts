// The project's own rules of alerts.
import { queryOptions } from "@tanstack/react-query";
import { get, patch, post, remove } from "./client";
import type { Items, MetricRule, MetricRuleCreate } from "./types";

export const alertRulesQuery = queryOptions({
  queryKey: ["alert-rules"],
  queryFn: () => get<Items<MetricRule>>("/v1/alert-rules"),
});

/** A new rule where `id` is null. */
export function saveRule({ id, body }: { id: string | null; body: MetricRuleCreate }): Promise<MetricRule> {
  return id === null ? post("/v1/alert-rules", body) : patch(`/v1/alert-rules/${id}`, body);
}

export function deleteRule(id: string): Promise<void> {
  return remove(`/v1/alert-rules/${id}`);
}
