// What happened to a run at a step, or between two: what its charts are marked with.
import type { Event } from "../api/types";

export interface Mark {
  cursor: number;
  at: string;
  kind: "checkpoint" | "refusal" | "restart" | "change";
  /** Of a restart no entry says it: its time does. */
  step: number | null;
  /** What more there is to say: of a checkpoint its kind, of a refusal and a restart the reason, of a change the options. */
  detail: string;
}

const RUNNING = new Set(["provisioning", "loading", "ready", "stopping"]);

/** Whether a run went back to the queue after it had a runtime. */
export function isRestart({ kind, data }: Event): boolean {
  return (
    kind === "state" &&
    data.to === "queued" &&
    typeof data.from === "string" &&
    RUNNING.has(data.from)
  );
}

export function markOf(entry: Event): Mark | null {
  const { cursor, at, data } = entry;
  if (isRestart(entry))
    return { cursor, at, kind: "restart", step: null, detail: said(data.reason) };
  if (entry.kind !== "event" || typeof data.step !== "number") return null;
  if (data.name === "checkpoint_committed")
    return { cursor, at, kind: "checkpoint", step: data.step, detail: said(data.kind) };
  if (data.name === "step_refused")
    return { cursor, at, kind: "refusal", step: data.step, detail: said(data.reason) };
  if (data.name === "config_changed")
    return {
      cursor,
      at,
      kind: "change",
      step: data.step,
      detail: optionsSaid(data.options, data.was),
    };
  return null;
}

/** "learning_rate 2e-6, was 1e-5". */
function optionsSaid(options: unknown, was: unknown): string {
  const before = new Map(Object.entries(was ?? {}));
  return Object.entries(options ?? {})
    .map(
      ([name, value]) =>
        `${name} ${String(value)}, was ${String(before.get(name) ?? "its default")}`,
    )
    .join("; ");
}

/** Two readings of one record, oldest first, each entry once. */
export function marksJoined(some: readonly Mark[], others: readonly Mark[]): Mark[] {
  const byCursor = new Map([...some, ...others].map((mark) => [mark.cursor, mark]));
  return [...byCursor.values()].sort((a, b) => a.cursor - b.cursor);
}

function said(value: unknown): string {
  return typeof value === "string" ? value : "";
}
