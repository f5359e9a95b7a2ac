// The page's address: of which run it is; and beyond the router, whose pages are all below one project, from no project into one, and out to the sign-in.
import { useSyncExternalStore } from "react";
import { matchPath } from "react-router";
import { baseOf } from "./api/project";

const told = new Set<() => void>();
let moves = 0; // of replaceAddress, which no router hears of

function subscribe(onMove: () => void): () => void {
  told.add(onMove);
  window.addEventListener("popstate", onMove); // "Back" leads out of a project too
  return () => {
    told.delete(onMove);
    window.removeEventListener("popstate", onMove);
  };
}

/** What all paths of the router's links begin with: "/projects/<id>", or nothing. */
export function useBase(): string {
  return useSyncExternalStore(subscribe, () => baseOf(location.pathname));
}

/** Changes whenever a router has to begin anew. */
export function useRouterKey(): string {
  return useSyncExternalStore(subscribe, () => `${baseOf(location.pathname)} ${String(moves)}`);
}

/** Go to a whole path of this server, in place of the page that is shown. The data that was read stays. */
export function replaceAddress(path: string): void {
  history.replaceState(null, "", path);
  moves += 1;
  for (const onMove of told) onMove();
}

/** The run whose pages are open; empty: none. */
export function runIn(pathname: string): string {
  const { id = "" } = matchPath("/sessions/:id/*", pathname)?.params ?? {};
  return id === "new" ? "" : id;
}
