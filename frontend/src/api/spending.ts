// What a session used and costs, and where its budget is heading.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { isRefused } from "./sessions";

const REFRESH_MS = 15_000; // a runtime is seen every few seconds, a cent passes in more

/** One that ends is read once more: what it used is then whole, and nothing is foretold. */
export function spendingQuery(id: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["session", id, "usage", isLive],
    queryFn: () =>
      unwrap(api.GET("/v1/sessions/{session_id}/usage", { params: { path: { session_id: id } } })),
    placeholderData: keepPreviousData,
    retry: (failures, error) => failures < 2 && !isRefused(error),
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}
