// Whether the page is live, and if not since when it is stale.
import type { Link } from "../../live/follow";
import { useOfflineSince } from "../../ui/connection-bar";
import { timeOfDay } from "../../ui/format";

const DOTS = { good: "bg-good", warn: "animate-pulse bg-warn", bad: "bg-bad" };

export function LinkState({ link, heardAt }: { link: Link; heardAt: number | null }) {
  const { words, tone } = linkText(link, heardAt, useOfflineSince());
  return (
    <span
      role="status"
      title={link.status === "refused" ? link.reason : undefined}
      className="inline-flex items-center gap-1.5 text-xs text-muted"
    >
      <span aria-hidden className={`size-2 rounded-full ${DOTS[tone]}`} />
      {words}
    </span>
  );
}

interface LinkText {
  words: string;
  tone: "good" | "warn" | "bad";
}

/** `offlineSince` and `heardAt`, when the server was last heard, are in ms since 1970 and null where they are not. */
export function linkText(
  link: Link,
  heardAt: number | null,
  offlineSince: number | null,
): LinkText {
  if (link.status === "refused") return { words: "Not live", tone: "bad" };
  if (offlineSince !== null) return { words: `Offline${since(offlineSince)}`, tone: "warn" };
  if (link.status === "live") return { words: "Live", tone: "good" };
  const words =
    link.status === "connecting" && link.attempt === 0 ? "Connecting…" : "Reconnecting…";
  return { words: words + since(heardAt), tone: "warn" };
}

function since(at: number | null): string {
  return at === null ? "" : `, stale since ${timeOfDay(new Date(at).toISOString())}`;
}
