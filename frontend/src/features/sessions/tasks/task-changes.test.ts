import { expect, test } from "vitest";
import type { Episode } from "../../../api/types";
import {
  byVersion,
  listedVersions,
  nearestChanges,
  taskChanges,
  versionOf,
  worstTask,
} from "./task-changes";

function episode(task: string | null, reward: number | null, version = 0, begun_at = 0): Episode {
  return {
    episode_id: `${task ?? ""} ${String(reward)}`,
    task,
    reward,
    policy_version_last: version,
    begun_at,
  } as Episode;
}

test("the task that lost most comes first, and one that a version did not play last", () => {
  const before = [
    episode("a", 1),
    episode("a", 0),
    episode("b", 1),
    episode("gone", 1),
    episode(null, 1),
  ];
  const after = [episode("a", 0.25), episode("b", 0), episode("b", null), episode("new", 1)];
  expect(taskChanges(before, after)).toEqual([
    { task: "b", before: 1, after: 0, change: -1 },
    { task: "a", before: 0.5, after: 0.25, change: -0.25 },
    { task: "gone", before: 1, after: null, change: null },
    { task: "new", before: null, after: 1, change: null },
  ]);
});

test("a task by version has the mean of each, and the episode that began last", () => {
  const newer = episode("a", 0, 3, 20);
  const rows = byVersion([
    episode("a", 1, 3, 10),
    newer,
    episode("a", 0.5, 8, 30),
    episode("a", null, 9, 40),
  ]);
  expect(rows.map(({ version, reward, episodes }) => [version, reward, episodes])).toEqual([
    [9, null, 1],
    [8, 0.5, 1],
    [3, 0.5, 2],
  ]);
  expect(rows[2]?.newest).toBe(newer);
});

test("what is no version in an address is the one that stands there otherwise", () => {
  expect([
    versionOf("8", 1),
    versionOf("0", 1),
    versionOf("-1", 1),
    versionOf("x", 1),
    versionOf("", 1),
    versionOf(null, 1),
  ]).toEqual([8, 0, 1, 1, 1, 1]);
});

test("the task that lost most is the one that is looked at first, where any lost", () => {
  const row = (task: string, change: number | null) => ({ task, before: 1, after: 0, change });
  expect(worstTask([row("a", -0.5), row("b", -0.1)])).toBe("a");
  expect(worstTask([row("a", 0), row("b", null)])).toBeNull();
  expect(worstTask([])).toBeNull();
});

test("versions are a list, with one of an address that nothing has, as long as it is short", () => {
  expect(listedVersions([2, 4], 3)).toEqual([2, 3, 4]);
  expect(listedVersions([2, 4], 6)).toEqual([2, 3, 4, 5, 6]);
  expect(listedVersions([0, 10_000], 3)).toBeNull();
});

test("tasks that are compared at their nearest plays say under which versions these were", () => {
  const play = (version: number, reward: number) => ({ version, reward, episodes: 4 });
  const rows = nearestChanges([
    { task: "fog", before: play(7, 1), after: play(13, 0.25) },
    { task: "mist", before: play(8, 0), after: play(12, 1) },
  ]);
  expect(rows).toEqual([
    { task: "fog", before: 1, after: 0.25, change: -0.75, played: [7, 13] },
    { task: "mist", before: 0, after: 1, change: 1, played: [8, 12] },
  ]);
  expect(worstTask(rows)).toBe("fog");
});
