// Follows a live channel over a WebSocket: reconnects by itself and resumes from the last cursor it was given. What is known of the connection is a pure table.
import type { EventPage, SessionChanges } from "../api/types";

/** What is known of the connection, and when to try again. */
export type Link =
  | { status: "connecting"; attempt: number }
  | { status: "live"; attempt: number }
  | { status: "waiting"; attempt: number; delayMs: number }
  | { status: "refused"; reason: string };

type LinkEvent =
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
function nextLink(link: Link, event: LinkEvent): Link {
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

const SILENCE_MS = 40_000; // the server sends something every 15 s
const LONGEST_MS = 320_000; // a page that a slow line brings no faster would else be asked for again for ever
const KINDS = "state,metric,event,evaluation"; // the log is read by its own request

/** The part of a WebSocket that is used, so that a test can stand in for the network. */
export interface Channel {
  onopen: (() => void) | null;
  onmessage: ((message: { data: string }) => void) | null;
  onclose: ((close: { code: number }) => void) | null;
  close(): void;
}

interface Following<Page> {
  /** What is known already: the cursor to go on from. */
  after: number;
  open: (path: string) => Channel;
  onPage: (page: Page) => void;
  onLink: (link: Link) => void;
}

interface FollowOptions extends Following<EventPage> {
  sessionId: string;
}

/** The record of a session. Starts at once; the answer ends it for good. */
export function followSession({ sessionId, ...following }: FollowOptions): () => void {
  return follow(
    (cursor) => `/ws/v1/sessions/${sessionId}?after=${String(cursor)}&kinds=${KINDS}`,
    following,
  );
}

/** What moves in the sessions of a project; after 0: from now on. */
export function followProject(projectId: string, following: Following<SessionChanges>): () => void {
  return follow((cursor) => `/ws/v1/projects/${projectId}?after=${String(cursor)}`, following);
}

export function openSocket(path: string): Channel {
  return new WebSocket(
    path.startsWith("/") ? location.origin.replace(/^http/, "ws") + path : path,
  ) as unknown as Channel;
}

function follow<Page extends { next_cursor: number }>(
  path: (cursor: number) => string,
  { after, open, onPage, onLink }: Following<Page>,
): () => void {
  let cursor = after;
  let link: Link = firstLink;
  let channel: Channel | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let patience = SILENCE_MS;

  function move(event: LinkEvent): void {
    const next = nextLink(link, event);
    if (next === link) return;
    link = next;
    onLink(link);
    if (link.status === "waiting") {
      timer = setTimeout(() => {
        move({ type: "retry" });
        connect();
      }, link.delayMs);
    }
  }

  function drop(): void {
    clearTimeout(silence);
    if (!channel) return;
    channel.onopen = channel.onmessage = channel.onclose = null;
    channel.close();
  }

  /** A connection whose other end has gone may stay open here for hours, and looks live. */
  function listen(): void {
    clearTimeout(silence);
    silence = setTimeout(() => {
      patience = Math.min(2 * patience, LONGEST_MS);
      drop();
      move({ type: "lost", code: 1006 });
    }, patience);
  }

  function connect(): void {
    listen();
    channel = open(path(cursor));
    channel.onopen = () => {
      move({ type: "opened" });
    };
    channel.onmessage = ({ data }) => {
      patience = SILENCE_MS;
      listen();
      const page = JSON.parse(data) as Page;
      cursor = Math.max(cursor, page.next_cursor);
      move({ type: "received" });
      onPage(page);
    };
    channel.onclose = ({ code }) => {
      clearTimeout(silence);
      move({ type: "lost", code });
    };
  }

  connect();
  return () => {
    clearTimeout(timer);
    drop();
  };
}
