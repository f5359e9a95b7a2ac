// Which groups of a live run are filling, and how far each is.
import type { NowEpisodes } from "../../../api/episodes";
import type { Episode } from "../../../api/types";
import { groupName } from "../episodes/first-line";

export interface FillingGroup {
  key: string;
  name: string;
  /** Episodes that ended with a reward and wait for the others. */
  ended: number;
  open: number;
}

/** The fullest first. Evaluations are in no group; of an episode whose group is not known yet its task is its group. */
export function fillingGroups({ newest, waiting }: NowEpisodes): FillingGroup[] {
  const seen = new Set(newest.map(({ episode_id }) => episode_id));
  const groups = new Map<string, FillingGroup>();
  for (const episode of [...newest, ...waiting.filter(({ episode_id }) => !seen.has(episode_id))]) {
    const key = episode.group_key ?? episode.task;
    if (key === null || episode.eval || !(isOpen(episode) || isWaiting(episode))) continue;
    const group = groups.get(key) ?? { key, name: key, ended: 0, open: 0 };
    // The first of them that says what was asked: an open one may have no call yet.
    if (group.name === key)
      group.name = groupName({ task: episode.task, group_key: key, episodes: [episode] });
    if (isOpen(episode)) group.open += 1;
    else group.ended += 1;
    groups.set(key, group);
  }
  return [...groups.values()].sort(
    (a, b) => b.ended - a.ended || b.open - a.open || a.name.localeCompare(b.name),
  );
}

/** The last that ended with a reward, the newest first. */
export function lastEnded({ newest }: NowEpisodes, most: number): Episode[] {
  const ended = newest.filter(({ ended_at, reward }) => ended_at !== null && reward !== null);
  return ended.sort((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0)).slice(0, most);
}

/** How many groups of `size` are full: of more episodes than that each makes another. */
export function fullGroups(groups: readonly FillingGroup[], size: number): number {
  return groups.reduce((sum, { ended }) => sum + Math.floor(ended / size), 0);
}

function isOpen({ state }: Episode): boolean {
  return state === "open";
}

function isWaiting({ state, fate }: Episode): boolean {
  return state === "completed" && (fate === "accepted" || fate === null);
}
