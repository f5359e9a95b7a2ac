// Public links to a run: made and revoked by its people, and what somebody without an account reads by one.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import type { Range } from "../ui/chart-axis";
import { unwrap, api, apiByToken } from "./client";
import { at, ENDED_STATES, isRefused } from "./sessions";
import type { ShareCreated, SharedRun } from "./types";

const REFRESH_MS = 5_000;
const TOKENS = 5_000; // of one page, as on the pages of a signed-in person

export function sharesQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id, "shares"],
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}/shares", at(id))),
  });
}

export function createShare(id: string, days: number): Promise<ShareCreated> {
  const body = { expires_in_days: days };
  return unwrap(api.POST("/v1/sessions/{session_id}/shares", { ...at(id), body }));
}

export function revokeShare(id: string, shareId: string): Promise<void> {
  const params = { path: { session_id: id, share_id: shareId } };
  return unwrap(api.DELETE("/v1/sessions/{session_id}/shares/{share_id}", { params }));
}

/** When to ask again: never once the run has ended or the link was refused, and again after what may pass. */
export function sharedRefreshMs(
  state: SharedRun["state"] | undefined,
  error: Error | null,
): number | false {
  const isOver = (state !== undefined && ENDED_STATES.includes(state)) || isRefused(error);
  return isOver ? false : REFRESH_MS;
}

export function sharedRunQuery(token: string) {
  return queryOptions({
    queryKey: ["shared", token],
    queryFn: () => unwrap(apiByToken(token).GET("/v1/shared")),
    refetchInterval: (query) => sharedRefreshMs(query.state.data?.state, query.state.error),
  });
}

/** `state` is the run's. */
export function sharedMetricsQuery(token: string, state: SharedRun["state"]) {
  return queryOptions({
    queryKey: ["shared", token, "metrics"],
    queryFn: () => unwrap(apiByToken(token).GET("/v1/shared/metrics")),
    refetchInterval: (query) => sharedRefreshMs(state, query.state.error),
  });
}

/** The steps of a part of the axis, in as many points as the whole run has. */
export function sharedFinerQuery(token: string, range: Range | null) {
  return queryOptions({
    queryKey: ["shared", token, "metrics", range],
    queryFn: () =>
      unwrap(
        apiByToken(token).GET("/v1/shared/metrics", {
          params: { query: { x_from: range?.min ?? null, x_to: range?.max ?? null } },
        }),
      ),
    enabled: range !== null,
    staleTime: REFRESH_MS,
  });
}

export function sharedEpisodesQuery(token: string) {
  return infiniteQueryOptions({
    queryKey: ["shared", token, "episodes"],
    queryFn: ({ pageParam }) =>
      unwrap(
        apiByToken(token).GET("/v1/shared/episodes", {
          params: { query: { limit: 100, cursor: pageParam || null } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function sharedTimelinesQuery(token: string, episodeId: string, start = 0) {
  return infiniteQueryOptions({
    queryKey: ["shared", token, "timelines", episodeId, start],
    queryFn: ({ pageParam }) => sharedTimelinesPage(token, episodeId, pageParam),
    initialPageParam: String(start),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    staleTime: 30_000,
  });
}

function sharedTimelinesPage(token: string, episodeId: string, cursor: string) {
  const params = {
    path: { episode_id: episodeId },
    query: { limit: TOKENS, cursor: Number(cursor) },
  };
  return unwrap(apiByToken(token).GET("/v1/shared/episodes/{episode_id}/timelines", { params }));
}
