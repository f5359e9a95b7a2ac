// Episodes for reading: lists, tokens, steps. They answer in every state of the session.
import { infiniteQueryOptions, keepPreviousData, queryOptions, type InfiniteData } from "@tanstack/react-query";
import { get, patch, remove } from "./client";
import { isFinal } from "./sessions";
import type { Episode, EpisodeAnnotation, EpisodeTimelines, Items, Page, Step, Thumb } from "./types";

const PAGE = 100;
const TOKENS = 5_000; // of one page: more spans at once would make a slow tab
const REFRESH_MS = 5_000;

/** What is asked of the list, as it stands in the address: `fate` may stand more than once. */
export type EpisodeFilter = [string, string][];

export function episodesPath(id: string, filter: EpisodeFilter, cursor: string): string {
  const asked = new URLSearchParams([["limit", String(PAGE)], ...filter]);
  // With a sort the list is the reported one, which has excerpts; without, a running session's own.
  if (!asked.has("sort")) asked.set("sort", "newest");
  if (cursor) asked.set("cursor", cursor);
  return `/v1/sessions/${id}/episodes?${asked.toString()}`;
}

export function episodesQuery(id: string, filter: EpisodeFilter, isLive: boolean) {
  return infiniteQueryOptions({
    queryKey: ["session", id, "episodes", filter],
    queryFn: ({ pageParam }) => get<Page<Episode>>(episodesPath(id, filter, pageParam)),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
    // Once somebody has read on, what they read stays where it is.
    refetchInterval: (query) => (isLive && (query.state.data?.pages.length ?? 1) === 1 ? REFRESH_MS : false),
  });
}

export function timelinesQuery(id: string, episodeId: string) {
  return infiniteQueryOptions({
    queryKey: ["session", id, "timelines", episodeId],
    queryFn: ({ pageParam }) => get<EpisodeTimelines>(`/v1/sessions/${id}/episodes/${encodeURIComponent(episodeId)}/timelines?limit=${String(TOKENS)}&cursor=${pageParam}`),
    initialPageParam: "0",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    staleTime: 30_000,
  });
}

export function stepQuery(id: string, step: number) {
  return queryOptions({
    queryKey: ["session", id, "steps", step],
    queryFn: () => get<Step>(`/v1/sessions/${id}/steps/${String(step)}`),
    retry: (failures, error) => failures < 2 && !isFinal(undefined, error),
  });
}

/** One's own words on an episode, in the place of earlier ones. The response has everybody's. */
export function annotateEpisode(id: string, episodeId: string, said: { thumb: Thumb | null; comment: string }): Promise<Items<EpisodeAnnotation>> {
  return patch(`/v1/sessions/${id}/episodes/${encodeURIComponent(episodeId)}/annotation`, said);
}

/** Everything that is kept of an episode of a session that has ended. The server rewrites its parts of the archive meanwhile. */
export function eraseEpisode(id: string, episodeId: string): Promise<void> {
  return remove(`/v1/sessions/${id}/episodes/${encodeURIComponent(episodeId)}`, { isLong: true });
}

/** The pages of an episode's tokens with these annotations: what was loaded stays, and is not asked for again. */
export function withAnnotations<P>(pages: InfiniteData<EpisodeTimelines, P> | undefined, annotations: EpisodeAnnotation[]): InfiniteData<EpisodeTimelines, P> | undefined {
  return pages && { ...pages, pages: pages.pages.map((page) => ({ ...page, episode: { ...page.episode, annotations } })) };
}
