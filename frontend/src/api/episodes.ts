// Episodes for reading: lists, tokens, steps, and what a live run is at. They answer in every state of the session.
import {
  infiniteQueryOptions,
  keepPreviousData,
  queryOptions,
  type InfiniteData,
} from "@tanstack/react-query";
import { unwrap, api, longFetch } from "./client";
import type { operations } from "./schema";
import { at, unlessRefused } from "./sessions";
import type { EpisodeAnnotation, EpisodeTimelines, Items, Thumb, Episode } from "./types";

const PAGE = 100;
const TOKENS = 5_000; // of one page: more spans at once would make a slow tab
const REFRESH_MS = 5_000;
const FACETS_MS = 15_000; // every matching episode is counted
const NEWEST = 100;
const WAITING = 200;
const NOW_REFRESH_MS = 3_000;

/** What is asked of the list, as it stands in the address: `fate` may stand more than once. */
export type EpisodeFilter = [string, string][];

export type EpisodesAsked = NonNullable<operations["episode_list"]["parameters"]["query"]>;

export function episodesRead(id: string, query: EpisodesAsked) {
  return unwrap(api.GET("/v1/sessions/{session_id}/episodes", at(id, query)));
}

function askedBy(filter: EpisodeFilter): EpisodesAsked {
  const all = (part: string) => filter.filter(([name]) => name === part).map(([, value]) => value);
  const others = filter.filter(([name]) => name !== "fate" && name !== "metric");
  return {
    ...(Object.fromEntries(others) as EpisodesAsked),
    fate: all("fate") as NonNullable<EpisodesAsked["fate"]>,
    metric: all("metric"),
  }; // a number in a text is the same in an address
}

export function episodesPage(id: string, filter: EpisodeFilter, cursor: string, limit = PAGE) {
  // With a sort the list is the reported one, which has excerpts; without, a running session's own.
  const asked = askedBy(filter);
  return episodesRead(id, { limit, sort: "newest", ...asked, cursor: cursor || null });
}

/** What the episodes that match are, counted. */
export function facetsQuery(id: string, filter: EpisodeFilter, isLive: boolean) {
  const query = askedBy(filter.filter(([name]) => name !== "sort"));
  return queryOptions({
    queryKey: ["session", id, "facets", query],
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}/episodes/facets", at(id, query))),
    placeholderData: keepPreviousData,
    refetchInterval: isLive ? FACETS_MS : false,
  });
}

/** The tokens of an episode, `limit` of them from the cursor on. */
export function timelinesPage(
  id: string,
  episodeId: string,
  limit: number,
  cursor = "0",
): Promise<EpisodeTimelines> {
  const params = {
    path: { session_id: id, episode_id: episodeId },
    query: { limit, cursor: Number(cursor) },
  };
  return unwrap(api.GET("/v1/sessions/{session_id}/episodes/{episode_id}/timelines", { params }));
}

export function episodesQuery(id: string, filter: EpisodeFilter, isLive: boolean) {
  return infiniteQueryOptions({
    queryKey: ["session", id, "episodes", filter],
    queryFn: ({ pageParam }) => episodesPage(id, filter, pageParam),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
    // Once somebody has read on, what they read stays where it is.
    refetchInterval: (query) =>
      isLive && (query.state.data?.pages.length ?? 1) === 1 ? REFRESH_MS : false,
  });
}

/** What stands before and after an episode in a list, wherever in it the episode is. */
export function neighboursQuery(id: string, episodeId: string, filter: EpisodeFilter) {
  const { sort, ...asked } = askedBy(filter);
  const query = { ...asked, sort: sort ?? ("newest" as const) };
  return queryOptions({
    queryKey: ["session", id, "neighbours", episodeId, query],
    queryFn: () =>
      unwrap(
        api.GET("/v1/sessions/{session_id}/episodes/{episode_id}/neighbours", {
          params: { path: { session_id: id, episode_id: episodeId }, query },
        }),
      ),
    staleTime: 10_000,
    retry: unlessRefused,
  });
}

/** An episode's tokens from number `start` on, counted through all of its timelines. */
export function timelinesQuery(id: string, episodeId: string, start = 0) {
  return infiniteQueryOptions({
    queryKey: ["session", id, "timelines", episodeId, start],
    queryFn: ({ pageParam }) => timelinesPage(id, episodeId, TOKENS, pageParam),
    initialPageParam: String(start),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    staleTime: 30_000,
  });
}

/** One that has ended, which changes no more but by being erased. */
export function endedEpisodeQuery(id: string, episodeId: string) {
  return queryOptions({
    queryKey: ["session", id, "ended episode", episodeId],
    queryFn: () =>
      unwrap(
        api.GET("/v1/sessions/{session_id}/episodes/{episode_id}", {
          params: { path: { session_id: id, episode_id: episodeId } },
        }),
      ),
    staleTime: Infinity,
    retry: false,
  });
}

export function stepQuery(id: string, step: number) {
  return queryOptions({
    queryKey: ["session", id, "steps", step],
    queryFn: () =>
      unwrap(
        api.GET("/v1/sessions/{session_id}/steps/{step}", {
          params: { path: { session_id: id, step: String(step) } },
        }),
      ),
    retry: unlessRefused,
  });
}

/** One's own words on an episode, in the place of earlier ones. The response has everybody's. */
export function annotateEpisode(
  id: string,
  episodeId: string,
  said: { thumb: Thumb | null; comment: string },
): Promise<Items<EpisodeAnnotation>> {
  const path = { session_id: id, episode_id: episodeId };
  return unwrap(
    api.PATCH("/v1/sessions/{session_id}/episodes/{episode_id}/annotation", {
      params: { path },
      body: said,
    }),
  );
}

/** Everything that is kept of an episode of a session that has ended. The server rewrites its parts of the archive meanwhile. */
export function eraseEpisode(id: string, episodeId: string): Promise<void> {
  const path = { session_id: id, episode_id: episodeId };
  return unwrap(
    api.DELETE("/v1/sessions/{session_id}/episodes/{episode_id}", {
      params: { path },
      fetch: longFetch,
    }),
  );
}

/** The pages of an episode's tokens with these annotations: what was loaded stays, and is not asked for again. */
export function withAnnotations<P>(
  pages: InfiniteData<EpisodeTimelines, P> | undefined,
  annotations: EpisodeAnnotation[],
): InfiniteData<EpisodeTimelines, P> | undefined {
  return (
    pages && {
      ...pages,
      pages: pages.pages.map((page) => ({ ...page, episode: { ...page.episode, annotations } })),
    }
  );
}

/** What a live run is at: its newest episodes with what was asked and answered, as its runtime reports them within seconds, and older ones that still wait. */
export interface NowEpisodes {
  /** Newest first. */
  newest: Episode[];
  /** Ended and not trained yet, as they were last reported, the oldest first. */
  waiting: Episode[];
}

/** Episodes are no entries of the record: they are asked for again while the page is looked at. */
export function nowQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id, "now"],
    queryFn: async (): Promise<NowEpisodes> => {
      const [newest, waiting] = await Promise.all([
        episodesRead(id, { sort: "newest", limit: NEWEST }),
        episodesRead(id, { fate: ["waiting"], sort: "oldest", limit: WAITING }),
      ]);
      return { newest: newest.items, waiting: waiting.items };
    },
    retry: unlessRefused,
    refetchInterval: NOW_REFRESH_MS,
  });
}
