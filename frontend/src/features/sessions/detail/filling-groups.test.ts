import { expect, test } from "vitest";
import type { Episode } from "../../../api/types";
import { fillingGroups, fullGroups, lastEnded } from "./filling-groups";

let count = 0;
function episode(
  task: string | null,
  state: Episode["state"],
  more: Partial<Episode> = {},
): Episode {
  count += 1;
  return {
    episode_id: `epi_${String(count)}`,
    task,
    group_key: task,
    state,
    fate: null,
    eval: false,
    prompt: "",
    reward: null,
    ended_at: null,
    ...more,
  } as Episode;
}
const waiting = (task: string | null, more: Partial<Episode> = {}) =>
  episode(task, "completed", { fate: "accepted", reward: 1, ended_at: 10, ...more });

test("groups that fill are counted by what ended and what is open, and nothing else counts", () => {
  const twice = waiting("mist");
  const newest = [
    episode("fog", "open"),
    twice,
    episode("mist", "open"),
    episode("mist", "completed", { fate: "trained", reward: 1 }),
    episode("mist", "abandoned"),
    waiting("held out", { eval: true }),
    episode(null, "open"),
    episode(null, "open", { group_key: "prompt 3fa9" }),
    waiting(null, { group_key: "prompt 3fa9", prompt: "\nHow many?\nThink." }),
  ];
  const older = [twice, waiting("mist"), waiting("rain"), waiting("rain"), waiting("rain")];
  const groups = fillingGroups({ newest, waiting: older });
  expect(groups).toEqual([
    { key: "rain", name: "rain", ended: 3, open: 0 },
    { key: "mist", name: "mist", ended: 2, open: 1 },
    { key: "prompt 3fa9", name: "How many?", ended: 1, open: 1 },
    { key: "fog", name: "fog", ended: 0, open: 1 },
  ]);
  expect([fullGroups(groups, 3), fullGroups(groups, 2), fullGroups(groups, 1)]).toEqual([1, 2, 6]);
});

test("the last episodes are those with a reward that ended last, not those that began last", () => {
  const newest = [
    episode("a", "open"),
    waiting("b", { ended_at: 5 }),
    waiting("c", { ended_at: 9, reward: 0 }),
    episode("d", "abandoned", { ended_at: 20 }),
    waiting("e", { ended_at: 1 }),
  ];
  expect(lastEnded({ newest, waiting: [] }, 2).map(({ task }) => task)).toEqual(["c", "b"]);
});
