import { expect, test } from "vitest";
import { groupName, nameOf, questionOf } from "./first-line";

test("an episode is called by its task, else by what was asked, else by its id", () => {
  const asked = { task: null, prompt: "\n  How many?\nThink.", episode_id: "epi_1" };
  expect(nameOf({ ...asked, task: "mist" })).toBe("mist");
  expect(nameOf(asked)).toBe("How many?");
  expect(nameOf({ ...asked, prompt: " \n" })).toBe("epi_1");
});

test("a group without a task is called by what its episodes were asked", () => {
  const group = {
    task: null,
    group_key: "prompt:8235",
    episodes: [{ prompt: "" }, { prompt: "How many?" }],
  };
  expect([
    groupName(group),
    groupName({ ...group, episodes: [] }),
    groupName({ ...group, task: "mist" }),
  ]).toEqual(["How many?", "prompt:8235", "mist"]);
});

test("a question that is longer than its excerpt says so", () => {
  expect(questionOf("x".repeat(499))).not.toContain("…");
  expect(questionOf("x".repeat(500))).toBe(`… ${"x".repeat(500)}`);
});
