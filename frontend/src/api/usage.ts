// What the project's sessions used, as measured, and what it holds of its quotas.
import { infiniteQueryOptions } from "@tanstack/react-query";
import { get } from "./client";
import type { UsagePage } from "./types";

export const usageQuery = infiniteQueryOptions({
  queryKey: ["usage"],
  queryFn: ({ pageParam }) => get<UsagePage>(`/v1/usage?limit=50${pageParam && `&cursor=${encodeURIComponent(pageParam)}`}`),
  initialPageParam: "",
  getNextPageParam: (page) => page.next_cursor ?? undefined,
  refetchInterval: 15_000,
});
