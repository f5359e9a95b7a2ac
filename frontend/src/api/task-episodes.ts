// Episodes of tasks by version of the policy: of the held-out tasks, or of those that are trained on.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import { episodesRead, type EpisodesAsked } from "./episodes";
import { at } from "./sessions";
import type { Episode } from "./types";

const PAGE = 200;
const PAGES = 5;
const KEPT_MS = 30_000;

/** So many of a version are read at most. */
export const MOST_OF_A_VERSION = PAGE * PAGES;

function page(id: string, isHeldOut: boolean, more: EpisodesAsked) {
  return episodesRead(id, { ...more, eval: isHeldOut, fate: [isHeldOut ? "eval" : "trained"] });
}

export interface VersionEdges {
  /** Of the first such episode, and of the last. */
  low: number;
  high: number;
  /** The first under which the task of the last episode was played: of a run whose tasks take turns, version `low` may have had others. */
  shared: number;
}

/** Null where there is no such episode. */
export function versionEdgesQuery(id: string, isHeldOut: boolean) {
  return queryOptions({
    queryKey: ["session", id, "version edges", isHeldOut],
    queryFn: async (): Promise<VersionEdges | null> => {
      const [first, last] = await Promise.all([
        page(id, isHeldOut, { sort: "oldest", limit: 1 }),
        page(id, isHeldOut, { sort: "newest", limit: 1 }),
      ]);
      const [low, high] = [
        first.items[0]?.policy_version_first,
        last.items[0]?.policy_version_last,
      ];
      if (low === undefined || low === null || high === undefined || high === null) return null;
      const task = last.items[0]?.task;
      const same = task ? await page(id, isHeldOut, { task, sort: "oldest", limit: 1 }) : null;
      return { low, high, shared: same?.items[0]?.policy_version_first ?? low };
    },
    staleTime: KEPT_MS,
  });
}

/** All episodes of a version, MOST_OF_A_VERSION of them at most. */
export function versionEpisodesQuery(id: string, isHeldOut: boolean, version: number) {
  return queryOptions({
    queryKey: ["session", id, "version episodes", isHeldOut, version],
    queryFn: async (): Promise<Episode[]> => {
      const found: Episode[] = [];
      let cursor: string | null = null;
      do {
        const read: Awaited<ReturnType<typeof page>> = await page(id, isHeldOut, {
          version,
          sort: "newest",
          limit: PAGE,
          cursor,
        });
        found.push(...read.items);
        cursor = read.next_cursor;
      } while (cursor !== null && found.length < MOST_OF_A_VERSION);
      return found;
    },
    staleTime: KEPT_MS,
  });
}

/** Each task at its plays nearest to two versions: of tasks that take turns, few are played under both. */
export function nearestPlaysQuery(id: string, isHeldOut: boolean, from: number, to: number) {
  return queryOptions({
    queryKey: ["session", id, "nearest plays", isHeldOut, from, to],
    queryFn: () =>
      unwrap(
        api.GET(
          "/v1/sessions/{session_id}/episodes/nearest",
          at(id, { held_out: isHeldOut, from_version: from, to_version: to }),
        ),
      ),
    staleTime: KEPT_MS,
  });
}

/** The newest episodes of one task, and those of `versions`, which may be long ago. */
export function taskEpisodesQuery(
  id: string,
  isHeldOut: boolean,
  task: string,
  versions: readonly number[],
) {
  return queryOptions({
    queryKey: ["session", id, "task episodes", isHeldOut, task, versions],
    queryFn: async (): Promise<Episode[]> => {
      const asked = [{}, ...versions.map((version) => ({ version }))];
      const pages = await Promise.all(
        asked.map((more) => page(id, isHeldOut, { task, sort: "newest", limit: PAGE, ...more })),
      );
      return [
        ...new Map(
          pages.flatMap(({ items }) => items.map((each) => [each.episode_id, each] as const)),
        ).values(),
      ];
    },
    staleTime: KEPT_MS,
  });
}
