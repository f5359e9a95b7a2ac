// The state of the live channel in words.
import type { Link } from "../../../live/link";
import { timeOfDay } from "../../../ui/format";

export interface LinkText {
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
