// Which of the user's projects this browser works in: remembered once they chose another than their first.
import type { Account, Project } from "./types";

const NAME = "project";

/** Its id; empty: the server's choice, which is the first. */
export function chosenProject(): string {
  return typeof localStorage === "undefined" ? "" : (localStorage.getItem(NAME) ?? "");
}

/** Work in it from now on. Everything on the page is another's then, so the page begins anew. */
export function chooseProject(id: string): void {
  localStorage.setItem(NAME, id);
  window.location.assign("/sessions");
}

/** Forget a choice that is not (or no longer) the user's. */
export function keepChoice(account: Account): Account {
  if (chosenProject() && !account.projects.some((project) => project.id === chosenProject())) localStorage.removeItem(NAME);
  return account;
}

export function currentProject(account: Account): Project | undefined {
  return account.projects.find((project) => project.id === chosenProject()) ?? account.projects[0];
}
