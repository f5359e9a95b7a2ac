import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { chosenProject, currentProject, keepChoice } from "./project";
import type { Account } from "./types";

const account: Account = {
  email: "ada@example.org",
  projects: [
    { id: "prj_1", name: "ada", role: "owner" },
    { id: "prj_2", name: "lab", role: "viewer" },
  ],
  invitations: [],
};

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => kept.set(name, value),
    removeItem: (name: string) => kept.delete(name),
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test("without a choice it is the first project, and no header is sent", () => {
  expect(chosenProject()).toBe("");
  expect(currentProject(account)?.name).toBe("ada");
});

test("a choice holds as long as the project is the user's", () => {
  localStorage.setItem("project", "prj_2");
  expect(currentProject(keepChoice(account))?.name).toBe("lab");
  expect(chosenProject()).toBe("prj_2");
});

test("a project that is no longer theirs is forgotten", () => {
  localStorage.setItem("project", "prj_gone");
  expect(currentProject(keepChoice(account))?.name).toBe("ada");
  expect(chosenProject()).toBe("");
});
