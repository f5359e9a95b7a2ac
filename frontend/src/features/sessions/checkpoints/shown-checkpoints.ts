// Which checkpoints are listed before the user asks for all: a long run has hundreds.
import type { Checkpoint } from "../../../api/types";

export const SHOWN_AT_FIRST = 20;

/** Of the list, newest first: the first of them, and every pinned one. */
export function shownCheckpoints(items: Checkpoint[], all: boolean): Checkpoint[] {
  return all
    ? items
    : items.filter((checkpoint, index) => index < SHOWN_AT_FIRST || checkpoint.pinned);
}
