// What went wrong in a run, from its record: restarts, faults with their traces, stacks of a run that stood still.
import type { Event } from "../../../api/types";
import { isRestart } from "../../../live/marks";

export interface Trouble {
  cursor: number;
  at: string;
  title: string;
  text: string;
  /** A stack dump or traceback, many lines long. */
  trace: string;
}

/** Events that the server and its runtimes write. */
export const FAULTS: readonly string[] = [
  "runtime_fault",
  "stuck",
  "store_full",
  "storage_unavailable",
  "step_refused",
  "nothing_to_learn",
  "little_to_learn",
  "reward_level",
  "no_reward",
  "gradient_norm_high",
  "length_drift",
  "engine_gap",
  "entropy_collapse",
  "answers_collapse",
  "answers_truncated",
  "grammar_lost",
  "episodes_stale",
  "checkpoint_failed",
  "alert",
  "budget_near",
  "budget_exhausted",
];

/** Newest first. */
export function troublesOf(entries: readonly Event[]): Trouble[] {
  return entries.flatMap((entry) => troubleOf(entry) ?? []).reverse();
}

function troubleOf(entry: Event): Trouble | null {
  const { cursor, at, data } = entry;
  if (isRestart(entry))
    return { cursor, at, title: "Restarted", text: said(data.reason), trace: "" };
  if (entry.kind === "state" && data.to === "failed")
    return { cursor, at, title: "Failed", text: said(data.reason), trace: "" };
  const name = said(data.name);
  if (entry.kind !== "event" || !FAULTS.includes(name)) return null;
  const text = sentences(said(data.cause) || said(data.reason) || said(data.text), said(data.hint));
  return {
    cursor,
    at,
    title: name.replaceAll("_", " "),
    text,
    trace: said(data.stacks) || said(data.trace),
  };
}

/** Causes are written without a full stop, as parts of longer lines; hints are sentences. */
function sentences(cause: string, hint: string): string {
  if (!cause || !hint) return cause || hint;
  return `${cause}${/[.!?:;…]\s*$/.test(cause) ? "" : "."} ${hint}`;
}

function said(value: unknown): string {
  return typeof value === "string" ? value : "";
}
