// How the rewards of tasks changed from one version of the policy to another, and what one task earned by version.
import type { ComparedTask, Episode } from "../../../api/types";

export interface TaskChange {
  task: string;
  /** Means of the episodes that have a reward; null where the version has none of the task. */
  before: number | null;
  after: number | null;
  change: number | null;
  /** The versions of the two, where they are others than those that are compared. */
  played?: readonly [number, number];
}

/** Each task at its plays nearest to the two versions, in the order of the server. */
export function nearestChanges(items: readonly ComparedTask[]): TaskChange[] {
  return items.map(({ task, before, after }) => ({
    task,
    before: before.reward,
    after: after.reward,
    change: after.reward - before.reward,
    played: [before.version, after.version],
  }));
}

/** One row for each task, what lost most first; tasks that one of the versions did not play come last. */
export function taskChanges(before: readonly Episode[], after: readonly Episode[]): TaskChange[] {
  const [old, now] = [rewardsByTask(before), rewardsByTask(after)];
  const rows = [...new Set([...old.keys(), ...now.keys()])].map((task) => {
    const [was, is] = [mean(old.get(task)), mean(now.get(task))];
    const change = was === null || is === null ? null : is - was;
    return { task, before: was, after: is, change };
  });
  return rows.sort(
    (a, b) => (a.change ?? Infinity) - (b.change ?? Infinity) || a.task.localeCompare(b.task),
  );
}

export interface VersionOfTask {
  version: number;
  reward: number | null;
  episodes: number;
  /** The one that began last. */
  newest: Episode;
}

/** What one task earned under each version, the newest version first. */
export function byVersion(episodes: readonly Episode[]): VersionOfTask[] {
  const found = new Map<number, Episode[]>();
  for (const episode of episodes) {
    if (episode.policy_version_last !== null)
      found.set(episode.policy_version_last, [
        ...(found.get(episode.policy_version_last) ?? []),
        episode,
      ]);
  }
  const rows = [...found].flatMap(([version, all]) => {
    const [newest] = [...all].sort((a, b) => b.begun_at - a.begun_at);
    return newest
      ? [
          {
            version,
            reward: mean(all.flatMap(({ reward }) => (reward === null ? [] : [reward]))),
            episodes: all.length,
            newest,
          },
        ]
      : [];
  });
  return rows.sort((a, b) => b.version - a.version);
}

/** The one that lost most; null where none lost. */
export function worstTask([first]: readonly TaskChange[]): string | null {
  return first && first.change !== null && first.change < 0 ? first.task : null;
}

const MOST_LISTED = 300;

/** The versions to choose from, `shown` among them; null where they are too many for a list. */
export function listedVersions(
  [low, high]: readonly [number, number],
  shown: number,
): number[] | null {
  const [first, last] = [Math.min(low, shown), Math.max(high, shown)];
  return last - first < MOST_LISTED
    ? Array.from({ length: last - first + 1 }, (_, at) => first + at)
    : null;
}

/** A version as it is typed into the address; what is none is the other. */
export function versionOf(typed: string | null, otherwise: number): number {
  return typed !== null && /^\d{1,9}$/.test(typed) ? Number(typed) : otherwise;
}

function rewardsByTask(episodes: readonly Episode[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const { task, reward } of episodes) {
    if (task && reward !== null) found.set(task, [...(found.get(task) ?? []), reward]);
  }
  return found;
}

function mean(values: readonly number[] | undefined): number | null {
  return values?.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}
