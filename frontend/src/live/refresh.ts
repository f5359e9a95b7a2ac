// An entry of the record means that rows behind it have moved too. They are read anew at once, then once a second at most:
// a burst of entries is one request, not one each.
import type { EventPage } from "../api/types";

/** `session`: its row; `checkpoints`: those too. */
export type Moved = "session" | "checkpoints";

export const EVERY_MS = 1_000;

export interface Refresher {
  page: (page: EventPage) => void;
  stop: () => void;
}

export function refresher(read: (moved: ReadonlySet<Moved>) => void): Refresher {
  let moved = new Set<Moved>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function flush(): void {
    timer = undefined;
    if (moved.size === 0) return;
    const now = moved;
    moved = new Set();
    timer = setTimeout(flush, EVERY_MS);
    read(now);
  }

  return {
    page: ({ items }) => {
      if (items.some((item) => item.kind !== "log")) moved.add("session");
      if (items.some((item) => item.kind === "event")) moved.add("checkpoints");
      if (timer === undefined) flush();
    },
    stop: () => {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
