// Public links to a run: made and revoked by its people, and what somebody without an account reads by one.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { ApiError, apiError, get, post, remove } from "./client";
import { ENDED_STATES, isRefused } from "./sessions";
import type { Episode, EpisodeTimelines, Items, MetricColumns, Page, Share, ShareCreated, SharedRun } from "./types";

const DEADLINE_MS = 30_000;
const REFRESH_MS = 5_000;
const TOKENS = 5_000; // of one page, as on the pages of a signed-in person

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

/** When to ask again: never once the run has ended or the link was refused, and again after what may pass. */
export function sharedRefreshMs(state: SharedRun["state"] | undefined, error: Error | null): number | false {
  const isOver = (state !== undefined && ENDED_STATES.includes(state)) || isRefused(error);
  return isOver ? false : REFRESH_MS;
}

export function sharedRunQuery(token: string) {
  return queryOptions({
    queryKey: ["shared", token],
    queryFn: () => read<SharedRun>(token, "/v1/shared"),
    refetchInterval: (query) => sharedRefreshMs(query.state.data?.state, query.state.error),
  });
}

/** `state` is the run's. */
export function sharedMetricsQuery(token: string, state: SharedRun["state"]) {
  return queryOptions({
    queryKey: ["shared", token, "metrics"],
    queryFn: () => read<MetricColumns>(token, "/v1/shared/metrics"),
    refetchInterval: (query) => sharedRefreshMs(state, query.state.error),
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
  return infiniteQueryOptions({
    queryKey: ["shared", token, "timelines", episodeId],
    queryFn: ({ pageParam }) => read<EpisodeTimelines>(token, sharedTimelinesPath(episodeId, pageParam)),
    initialPageParam: "0",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    staleTime: 30_000,
  });
}

export function sharedTimelinesPath(episodeId: string, cursor: string): string {
  return `/v1/shared/episodes/${encodeURIComponent(episodeId)}/timelines?limit=${String(TOKENS)}&cursor=${encodeURIComponent(cursor)}`;
}
