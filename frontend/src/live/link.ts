// The state of the live channel as a pure table: what is known of the connection and when to try again.

export type Link =
  | { status: "connecting"; attempt: number }
  | { status: "live"; attempt: number }
  | { status: "waiting"; attempt: number; delayMs: number }
  | { status: "refused"; reason: string };

export type LinkEvent =
  { type: "opened" } | { type: "received" } | { type: "lost"; code: number } | { type: "retry" };

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 10_000;

/** Close codes after which asking again cannot help: 4000 plus the HTTP status of the same refusal. */
const REFUSALS: Readonly<Record<number, string>> = {
  4400: "The live channel did not understand this page. Reload it.",
  4401: "You are signed out. Sign in to go on.",
  4403: "Your account may not watch this session.",
  4404: "There is no such session in your project.",
};

export const firstLink: Link = { status: "connecting", attempt: 0 };

/** A connection counts as good again only once a message was received, so that one that opens and drops still backs off. */
export function nextLink(link: Link, event: LinkEvent): Link {
  if (link.status === "refused") return link;
  switch (event.type) {
    case "opened":
      return { status: "live", attempt: link.attempt };
    case "received":
      return link.status === "live" && link.attempt === 0 ? link : { status: "live", attempt: 0 };
    case "retry":
      return { status: "connecting", attempt: link.attempt };
    case "lost": {
      const reason = REFUSALS[event.code];
      if (reason) return { status: "refused", reason };
      const delayMs = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** link.attempt);
      return { status: "waiting", attempt: link.attempt + 1, delayMs };
    }
  }
}
