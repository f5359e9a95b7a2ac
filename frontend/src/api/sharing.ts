// Public links to a run: made and revoked by its people, and what somebody without an account reads by one.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { ApiError, apiError, get, post, remove } from "./client";
import type { Episode, EpisodeTimelines, Items, MetricColumns, Page, Share, ShareCreated, SharedRun } from "./types";

const DEADLINE_MS = 30_000;
const REFRESH_MS = 5_000;

export function sharesQuery(id: string) {
  return queryOptions({ queryKey: ["session", id, "shares"], queryFn: () => get<Items<Share>>(`/v1/sessions/${id}/shares`) });
}

export function createShare(id: string, days: number): Promise<ShareCreated> {
  return post(`/v1/sessions/${id}/shares`, { expires_in_days: days });
}

export function revokeShare(id: string, shareId: string): Promise<void> {
  return remove(`/v1/sessions/${id}/shares/${shareId}`);
}

/** With the link's token and nothing else: a sign-in that this browser has is not sent. */
async function read<T>(token: string, path: string): Promise<T> {
  const headers = { Accept: "application/json", Authorization: `Bearer ${token}` };
  const response = await fetch(path, { headers, credentials: "omit", signal: AbortSignal.timeout(DEADLINE_MS) }).catch(() => {
    throw new ApiError(0, "unreachable", "The server does not answer.", "Check that you are online, then try again.");
  });
  if (!response.ok) throw apiError(response.status, await response.json().catch(() => null));
  return (await response.json()) as T;
}

export function sharedRunQuery(token: string) {
  return queryOptions({ queryKey: ["shared", token], queryFn: () => read<SharedRun>(token, "/v1/shared"), refetchInterval: (query) => (query.state.error ? false : REFRESH_MS) });
}

export function sharedMetricsQuery(token: string, isLive: boolean) {
  return queryOptions({
    queryKey: ["shared", token, "metrics"],
    queryFn: () => read<MetricColumns>(token, "/v1/shared/metrics"),
    refetchInterval: isLive ? REFRESH_MS : false,
  });
}

export function sharedEpisodesQuery(token: string) {
  return infiniteQueryOptions({
    queryKey: ["shared", token, "episodes"],
    queryFn: ({ pageParam }) => read<Page<Episode>>(token, `/v1/shared/episodes?limit=100${pageParam && `&cursor=${encodeURIComponent(pageParam)}`}`),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function sharedTimelinesQuery(token: string, episodeId: string) {
  return queryOptions({
    queryKey: ["shared", token, "timelines", episodeId],
    queryFn: () => read<EpisodeTimelines>(token, `/v1/shared/episodes/${encodeURIComponent(episodeId)}/timelines`),
    staleTime: 30_000,
  });
}
