import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { baseOf, chosenProject, currentProject, inProject, keepChoice } from "./project";
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

test("the project of the address is the one that is shown, and is remembered unless it is the first", () => {
  vi.stubGlobal("location", { pathname: "/projects/prj_2/sessions/ses_1" });
  expect(currentProject(keepChoice(account))?.name).toBe("lab");
  vi.stubGlobal("location", { pathname: "/sessions/ses_1" });
  expect(chosenProject()).toBe("prj_2");
  vi.stubGlobal("location", { pathname: "/projects/prj_1" });
  keepChoice(account);
  vi.stubGlobal("location", { pathname: "/home" });
  expect(chosenProject()).toBe("");
});

test("a project of the address that is not theirs is no other one, and what was remembered stays", () => {
  localStorage.setItem("project", "prj_2");
  vi.stubGlobal("location", { pathname: "/projects/prj_9/home" });
  expect(currentProject(keepChoice(account))).toBeUndefined();
  vi.stubGlobal("location", { pathname: "/home" });
  expect(chosenProject()).toBe("prj_2");
});

test("a path's project is before the page's own path", () => {
  expect(
    [
      "/projects/prj_1/home",
      "/projects/prj_1",
      "/projects/",
      "/projects/a%2Fb/home",
      "/sessions/projects/x",
    ].map(baseOf),
  ).toEqual(["/projects/prj_1", "/projects/prj_1", "", "", ""]);
  expect(inProject("prj_1", "/sessions?tag=a")).toBe("/projects/prj_1/sessions?tag=a");
});
