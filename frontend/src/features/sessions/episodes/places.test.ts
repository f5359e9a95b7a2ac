import { matchRoutes } from "react-router";
import { expect, test } from "vitest";
import { episodePath, groupPath, ofSessions } from "./places";

test("a group's key comes back from its path whatever is in it", () => {
  for (const key of ["mist", "a/b", "a b?c=d#e", "100 %", "ä", "task.v1"]) {
    const [found] =
      matchRoutes(
        [{ path: "/sessions/:id/steps/:step/groups/:group" }],
        groupPath("ses_1", 14, key),
      ) ?? [];
    expect(found?.params).toEqual({ id: "ses_1", step: "14", group: key });
  }
});

test("an episode that was trained is below its group, and another one in the list", () => {
  const episode = { episode_id: "epi_2", trained_step: 14, group_key: "task-3" };
  expect(episodePath("ses_1", episode)).toBe(
    "/sessions/ses_1/steps/14/groups/task-3/episodes/epi_2",
  );
  expect(episodePath("ses_1", { ...episode, trained_step: null })).toBe(
    "/sessions/ses_1/episodes/epi_2",
  );
  expect(episodePath("ses_1", { ...episode, group_key: null })).toBe(
    "/sessions/ses_1/episodes/epi_2",
  );
});

test("an address of a run is that of its session, with all that stands behind it", () => {
  const at = (pathname: string) => ofSessions({ pathname, search: "?token=212", hash: "#a" });
  expect(at("/runs/ses_1/steps/14/groups/a%2Fb/episodes/epi_2")).toBe(
    "/sessions/ses_1/steps/14/groups/a%2Fb/episodes/epi_2?token=212#a",
  );
  expect(at("/runs")).toBe("/sessions?token=212#a");
});
