// An entry of the record means that rows behind it have moved too. They are read anew at once, then a second after each
// read has come at the soonest: a burst of entries is one request, and no read takes the place of one that a slow server
// still works on.
import type { EventPage } from "../api/types";

/** `session`: its row; `checkpoints`: those too. */
export type Moved = "session" | "checkpoints";

export const EVERY_MS = 1_000;

interface Refresher {
  page: (page: EventPage) => void;
  stop: () => void;
}

/** `read` settles when what was read has come, or has failed. */
export function refresher(read: (moved: ReadonlySet<Moved>) => Promise<unknown>): Refresher {
  let moved = new Set<Moved>();
  let isResting = false; // while it reads, and for a second after
  let timer: ReturnType<typeof setTimeout> | undefined;
  let round = 0; // a read that settles after `stop` starts nothing

  function flush(): void {
    isResting = moved.size > 0;
    if (!isResting) return;
    const now = moved;
    moved = new Set();
    const mine = round;
    const rest = () => {
      if (mine === round) timer = setTimeout(flush, EVERY_MS);
    };
    read(now).then(rest, rest);
  }

  return {
    page: ({ items }) => {
      if (items.some((item) => item.kind !== "log")) moved.add("session");
      if (items.some((item) => item.kind === "event")) moved.add("checkpoints");
      if (!isResting) flush();
    },
    stop: () => {
      clearTimeout(timer);
      round += 1;
      isResting = false;
    },
  };
}
