// Which evaluation tasks runs have played, those that most of them share first.
import type { Episode } from "../../../api/types";

export interface EvalTask {
  task: string;
  /** How many of the runs have played it. */
  runs: number;
}

export function evalTasks(lists: readonly (readonly Episode[])[]): EvalTask[] {
  const counts = new Map<string, number>();
  for (const episodes of lists) {
    const played = new Set(episodes.flatMap((episode) => (episode.task ? [episode.task] : [])));
    for (const task of played) counts.set(task, (counts.get(task) ?? 0) + 1);
  }
  return [...counts]
    .map(([task, runs]) => ({ task, runs }))
    .sort((a, b) => b.runs - a.runs || a.task.localeCompare(b.task));
}
