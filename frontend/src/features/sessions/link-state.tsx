// Whether the page is live, and if not since when it is stale.
import type { Link } from "../../live/link";
import { useOfflineSince } from "../../ui/connection-bar";
import { linkText } from "./detail/link-text";

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
