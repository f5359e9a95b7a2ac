// What sessions used and cost, as measured, and what the project holds of its quotas.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { at, unlessRefused } from "./sessions";
import type { UsageBy } from "./types";

const REFRESH_MS = 15_000; // a runtime is seen every few seconds, a cent passes in more

export const usageQuery = infiniteQueryOptions({
  queryKey: ["usage"],
  queryFn: ({ pageParam }) =>
    unwrap(api.GET("/v1/usage", { params: { query: { limit: 50, cursor: pageParam || null } } })),
  initialPageParam: "",
  getNextPageParam: (page) => page.next_cursor ?? undefined,
  // All pages that are loaded are read anew each time: who reads on asks no more often for it.
  refetchInterval: (query) => REFRESH_MS * Math.max(1, query.state.data?.pages.length ?? 1),
});

/** Days as "2026-11-29", in UTC, both included. */
export function usageDaysQuery(first: string, last: string, by: UsageBy) {
  return queryOptions({
    queryKey: ["usage", "days", first, last, by],
    queryFn: () => unwrap(api.GET("/v1/usage/days", { params: { query: { first, last, by } } })),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
}

/** What a session used and costs, and where its budget is heading. One that ends is read once more: what it used is then whole, and nothing is foretold. */
export function spendingQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "usage", isLive],
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}/usage", at(id))),
    placeholderData: keepPreviousData,
    retry: unlessRefused,
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}
