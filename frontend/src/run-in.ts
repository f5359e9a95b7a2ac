// Which run the address is of.
import { matchPath } from "react-router";

/** The run whose pages are open; empty: none. */
export function runIn(pathname: string): string {
  const { id = "" } = matchPath("/sessions/:id/*", pathname)?.params ?? {};
  return id === "new" ? "" : id;
}
