// Which of the user's projects a page shows: the one in its address, /projects/<id>/..., so that a link opens for a colleague.
// An address without one is of the project that was open last in this browser, or of the user's first.
import { DEMO, isDemo, isInDemo } from "./offline";
import type { Account, Project } from "./types";

const NAME = "project";
const IN_PATH = /^\/projects\/([\w-]+)(?=\/|$)/;

/** The part of a path before the page's own: "/projects/<id>", that of the demo run, or nothing. */
export function baseOf(pathname: string): string {
  return isInDemo(pathname) ? DEMO : (IN_PATH.exec(pathname)?.[0] ?? "");
}

/** The path of a page of a project. */
export function inProject(id: string, path: string): string {
  return `/projects/${id}${path}`;
}

/** The id in the address; empty where it names none. */
function addressed(): string {
  return (typeof location === "undefined" ? null : IN_PATH.exec(location.pathname))?.[1] ?? "";
}

/** Empty: the server's choice, which is the first. The demo run is of none of theirs. */
export function chosenProject(): string {
  if (isDemo) return "";
  return (
    addressed() || (typeof localStorage === "undefined" ? "" : (localStorage.getItem(NAME) ?? ""))
  );
}

/** Work in it from now on. Everything on the page is another's then, so the page begins anew. */
export function chooseProject(id: string): void {
  window.location.assign(inProject(id, "/home"));
}

/** Remember the project that is open; the first is the server's own choice. Forget one that is not (or no longer) theirs. */
export function keepChoice(account: Account): Account {
  if (isDemo) return account;
  const chosen = chosenProject();
  const isTheirs = account.projects.some(({ id }) => id === chosen);
  if (isTheirs && chosen !== account.projects[0]?.id) localStorage.setItem(NAME, chosen);
  else if (isTheirs || !addressed()) localStorage.removeItem(NAME);
  return account;
}

/** None: the address names a project that is not theirs, or they have none. */
export function currentProject(account: Account): Project | undefined {
  const chosen = account.projects.find(({ id }) => id === chosenProject());
  return chosen ?? (addressed() ? undefined : account.projects[0]);
}
