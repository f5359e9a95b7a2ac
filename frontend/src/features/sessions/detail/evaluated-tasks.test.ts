import { expect, test } from "vitest";
import type { Evaluation } from "../../../api/types";
import { evaluatedSets } from "./evaluated-tasks";

const score = (reward_mean: number, reward_std: number | null = null) => ({
  reward_mean,
  reward_std,
  episodes: 2,
});
const played = (name: string, step: number, by_task: Evaluation["by_task"]) =>
  ({ name, step, by_task }) as Evaluation;

test("the latest evaluation of each set stands beside its first, the worst task first", () => {
  const [easy, hard] = evaluatedSets([
    played("easy", 0, { a: score(0), b: score(0.5) }),
    played("hard", 4, { d: score(0.1) }),
    played("easy", 4, { a: score(1, 0.2) }),
    played("easy", 8, { a: score(0.9, 0.1), b: score(0.5, 0), c: score(0.2) }),
  ]);
  expect([easy?.first.step, easy?.last.step]).toEqual([0, 8]);
  expect(easy?.tasks).toEqual([
    { task: "c", before: null, mean: 0.2, spread: null, episodes: 2 },
    { task: "b", before: 0.5, mean: 0.5, spread: 0, episodes: 2 },
    { task: "a", before: 0, mean: 0.9, spread: 0.1, episodes: 2 },
  ]);
  expect(hard?.tasks.map(({ before }) => before)).toEqual([null]);
});
