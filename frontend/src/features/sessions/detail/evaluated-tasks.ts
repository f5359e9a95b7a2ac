// What evaluations came to by task: the latest of each set beside its first, which tells what training changed where.
import type { Evaluation } from "../../../api/types";

interface EvaluatedTask {
  task: string;
  /** Mean reward at the first evaluation of the set; null where it did not play this task, or is the latest itself. */
  before: number | null;
  mean: number;
  /** Standard deviation of the task's rewards; null of a single one. */
  spread: number | null;
  episodes: number;
}

export interface EvaluatedSet {
  first: Evaluation;
  last: Evaluation;
  tasks: EvaluatedTask[];
}

/** Each set in the order in which they were first played, its tasks with the lowest mean first. */
export function evaluatedSets(evaluations: readonly Evaluation[]): EvaluatedSet[] {
  const names = [...new Set(evaluations.map((one) => one.name))];
  return names.flatMap((name) => {
    const played = evaluations.filter((one) => one.name === name);
    const [first, last] = [played[0], played[played.length - 1]];
    return first && last ? [{ first, last, tasks: tasksOf(first, last) }] : [];
  });
}

function tasksOf(first: Evaluation, last: Evaluation): EvaluatedTask[] {
  const tasks = Object.entries(last.by_task).map(
    ([task, { reward_mean, reward_std, episodes }]) => ({
      task,
      before: first === last ? null : (first.by_task[task]?.reward_mean ?? null),
      mean: reward_mean,
      spread: reward_std ?? null,
      episodes,
    }),
  );
  return tasks.sort((one, other) => one.mean - other.mean || (one.task < other.task ? -1 : 1));
}
