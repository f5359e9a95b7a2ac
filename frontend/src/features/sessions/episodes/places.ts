// Where a group of a step and its episodes are: each has a path of its own, below that of its step.

export function stepPath(id: string, step: number | string): string {
  return `/sessions/${id}/steps/${String(step)}`;
}

/** A key is anybody's text: a slash in it is no part of the path. */
export function groupPath(id: string, step: number | string, groupKey: string): string {
  return `${stepPath(id, step)}/groups/${encodeURIComponent(groupKey)}`;
}

/** Of an episode that no step has trained, or whose group is not known: the list's own. */
export function episodePath(
  id: string,
  episode: { episode_id: string; trained_step: number | null; group_key: string | null },
): string {
  const { episode_id: episodeId, trained_step: step, group_key: groupKey } = episode;
  if (step === null || groupKey === null) return `/sessions/${id}/episodes/${episodeId}`;
  return `${groupPath(id, step, groupKey)}/episodes/${episodeId}`;
}

/** The same place by its present path: `/runs/...` is what sessions are called elsewhere. */
export function ofSessions({
  pathname,
  search,
  hash,
}: {
  pathname: string;
  search: string;
  hash: string;
}): string {
  return pathname.replace(/^\/runs(?=\/|$)/, "/sessions") + search + hash;
}
