// When a queued session starts, as the server estimates it: see console/sessions/limits/queue_wait.py.
import type { Session } from "../../api/types";
import { span } from "../../ui/format";

/** "starts in about 25 min", by whole minutes; empty where it is not known. */
export function startText({ queue_wait_s: waitS }: Pick<Session, "queue_wait_s">): string {
  if (waitS === null) return "";
  return waitS < 60 ? "starts in less than a minute" : `starts in about ${span(Math.round(waitS / 60) * 60)}`;
}
