// The tasks without a name that an event speaks of.
import type { TimelineEntry } from "../../../live/record";

const UNNAMED = /^prompt:[0-9a-f]{32}$/;

/** The key of each, and an episode of it, which has the question. */
export function askedOf({ data = {} }: TimelineEntry): { key: string; episodeId: string }[] {
  const { tasks, episode_ids: ids } = data;
  if (!Array.isArray(tasks) || !Array.isArray(ids)) return [];
  return tasks.flatMap((key, at) => {
    const episodeId: unknown = ids[at];
    return typeof key === "string" && typeof episodeId === "string" && UNNAMED.test(key)
      ? [{ key, episodeId }]
      : [];
  });
}
