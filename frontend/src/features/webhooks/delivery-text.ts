// How telling a webhook went, in words.
import type { Delivery } from "../../api/types";
import type { Tone } from "../../ui/badge";
import { span } from "../../ui/format";

export const TONES: Record<Delivery["state"], Tone> = {
  pending: "busy",
  delivered: "good",
  failed: "bad",
};

/** What came of the last try, and when the next one is. */
export function outcome(delivery: Delivery, now = Date.now()): string {
  const { state, status, error, next_at: nextAt } = delivery;
  if (state === "delivered") return `returned ${String(status ?? "")}`.trim();
  if (state === "failed") return `${error}, given up`;
  if (!error || nextAt === null) return "on its way";
  const leftS = (Date.parse(nextAt) - now) / 1000;
  return leftS > 0 ? `${error}, again in ${span(Math.ceil(leftS))}` : `${error}, again now`;
}
