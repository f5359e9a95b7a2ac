// What a session page knows of its record: a pure reducer over pages of numbered entries. A page that comes twice, or
// overlaps one already taken, changes nothing, so that a reconnect may start from any cursor at or before the last.
import type { Evaluation, Event, EventPage, MetricColumns, StepMetrics } from "../api/types";
import { bytes } from "../ui/format";
import { markOf, type Mark } from "./marks";

export const KEPT_ENTRIES = 500;

export interface TimelineEntry {
  cursor: number;
  at: string;
  kind: "state" | "phase" | "event";
  title: string;
  detail: string;
  /** The name of the batch that a refused step leaves: what it is downloaded by. */
  batch?: string;
  /** The step that it is about. */
  step?: number;
  /** Of an event: what was recorded. */
  data?: Event["data"];
  /** Of a phase: how long it may go without progress. */
  deadlineS?: number;
}

/** The limit that ended the session: what it allowed and what had been used. */
export interface BudgetEnd {
  limit: string;
  allowed: number;
  used: number;
}

export interface SessionRecord {
  /** The last entry taken; what to ask for entries after. */
  cursor: number;
  /** One per step, by step; of a long run's past the last of each stretch that was put together. */
  steps: readonly StepMetrics[];
  /** What was read of that past, with the extremes of each stretch. */
  read: MetricColumns | null;
  /** What eval episodes earned, in the order of recording. */
  evaluations: readonly Evaluation[];
  /** State changes and events, oldest first, the last 500. */
  timeline: readonly TimelineEntry[];
  /** What the charts are marked with, oldest first, of the entries that were read. */
  marks: readonly Mark[];
  budgetEnd: BudgetEnd | null;
}

export const emptyRecord: SessionRecord = {
  cursor: 0,
  steps: [],
  read: null,
  evaluations: [],
  timeline: [],
  marks: [],
  budgetEnd: null,
};

export function applyPage(record: SessionRecord, page: EventPage): SessionRecord {
  const fresh = page.items.filter((item) => item.cursor > record.cursor);
  if (fresh.length === 0)
    return page.next_cursor > record.cursor ? { ...record, cursor: page.next_cursor } : record;
  const hasSteps = fresh.some(({ kind }) => kind === "metric"); // else the charts keep what they have drawn
  const steps = hasSteps ? [...record.steps] : record.steps;
  const evaluations = [...record.evaluations];
  const timeline = [...record.timeline];
  const marks = fresh.flatMap((item) => markOf(item) ?? []);
  let budgetEnd = record.budgetEnd;
  for (const item of fresh) {
    if (item.kind === "metric")
      putStep(steps as StepMetrics[], item.data as unknown as StepMetrics);
    else if (item.kind === "evaluation") evaluations.push(item.data as unknown as Evaluation);
    else if (item.kind !== "log") timeline.push(timelineEntry(item));
    if (item.data.name === "budget_exhausted") {
      budgetEnd ??= {
        limit: text(item.data.limit),
        allowed: Number(item.data.allowed),
        used: Number(item.data.used),
      };
    }
  }
  const last = fresh[fresh.length - 1]?.cursor ?? record.cursor;
  return {
    ...record,
    cursor: Math.max(last, page.next_cursor),
    steps,
    evaluations: evaluations.slice(-KEPT_ENTRIES),
    timeline: timeline.slice(-KEPT_ENTRIES),
    marks: marks.length === 0 ? record.marks : [...record.marks, ...marks].slice(-KEPT_ENTRIES),
    budgetEnd,
  };
}

/** A step done again after a restart replaces the one it repeats; order by step is kept. */
function putStep(steps: StepMetrics[], metrics: StepMetrics): void {
  let at = steps.length;
  while (at > 0 && (steps[at - 1]?.step ?? 0) > metrics.step) at -= 1;
  const repeats = steps[at - 1]?.step === metrics.step;
  steps.splice(repeats ? at - 1 : at, repeats ? 1 : 0, metrics);
}

function timelineEntry({ cursor, at, kind, data }: Event): TimelineEntry {
  if (kind === "state") {
    const from = text(data.from);
    if (from === data.to) {
      const deadline = typeof data.deadline_s === "number" && { deadlineS: data.deadline_s };
      return {
        cursor,
        at,
        kind: "phase",
        title: text(data.phase),
        detail: text(data.reason),
        ...deadline,
      };
    }
    const title = from ? `${from} → ${text(data.to)}` : text(data.to);
    return {
      cursor,
      at,
      kind,
      title,
      detail: [text(data.reason), text(data.phase)].filter(Boolean).join(" · "),
    };
  }
  const { name, ...rest } = data;
  // Ids mean nothing to a reader of a list; the step of what has a path is the number of a client's request.
  const isNamed = typeof data.path === "string";
  const shown = Object.entries(rest).filter(
    ([key]) => !/_ids?$/.test(key) && !(isNamed && key === "step"),
  );
  const detail = shown.map(([key, value]) =>
    key === "size_bytes" ? bytes(Number(value)) : `${key} ${text(value)}`,
  );
  const led = {
    ...(typeof data.batch === "string" && { batch: data.batch }),
    ...(typeof data.step === "number" && !isNamed && { step: data.step }),
  };
  return {
    cursor,
    at,
    kind: "event",
    title: text(name).replaceAll("_", " "),
    detail: detail.join(" · "),
    ...led,
    data,
  };
}

function text(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value) && value.every((one) => typeof one === "string"))
    return value.join(", ");
  return typeof value === "object"
    ? JSON.stringify(value)
    : String(value as string | number | boolean);
}
