import { expect, test } from "vitest";
import type { Episode } from "../../../api/types";
import { evalTasks } from "./eval-answers";

const episodes = (...tasks: (string | null)[]) => tasks.map((task) => ({ task })) as Episode[];

test("tasks that most runs have played stand first, each counted once a run", () => {
  expect(evalTasks([episodes("b", "a", "a", null), episodes("b")])).toEqual([
    { task: "b", runs: 2 },
    { task: "a", runs: 1 },
  ]);
  expect(evalTasks([[], []])).toEqual([]);
});
