// What the project's sessions used, as measured, and what it holds of its quotas.
import { infiniteQueryOptions } from "@tanstack/react-query";
import { get } from "./client";
import type { UsagePage } from "./types";

const REFRESH_MS = 15_000;

export const usageQuery = infiniteQueryOptions({
  queryKey: ["usage"],
  queryFn: ({ pageParam }) => get<UsagePage>(`/v1/usage?limit=50${pageParam && `&cursor=${encodeURIComponent(pageParam)}`}`),
  initialPageParam: "",
  getNextPageParam: (page) => page.next_cursor ?? undefined,
  // All pages that are loaded are read anew each time: who reads on asks no more often for it.
  refetchInterval: (query) => REFRESH_MS * Math.max(1, query.state.data?.pages.length ?? 1),
});
