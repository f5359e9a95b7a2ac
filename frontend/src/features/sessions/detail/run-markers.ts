// What the charts of a run are marked with: its checkpoints, refused steps, restarts, changed options and evaluations, each at its place on the axis.
import type { Evaluation } from "../../../api/types";
import type { Mark } from "../../../live/marks";
import type { Axis } from "../../../ui/chart-axis";
import type { Marker } from "../../../ui/chart-markers";
import { dateTime, number } from "../../../ui/format";

type MarkerKind = Mark["kind"] | "evaluation";

export const MARKER_KINDS: readonly { kind: MarkerKind; name: string; colour: string }[] = [
  { kind: "checkpoint", name: "Checkpoint", colour: "--series-3" },
  { kind: "evaluation", name: "Evaluation", colour: "--series-4" },
  { kind: "refusal", name: "Refused step", colour: "--series-5" },
  { kind: "restart", name: "Restart", colour: "--series-2" },
  { kind: "change", name: "Changed options", colour: "--series-6" },
];

/** When steps were recorded, in seconds since the session's creation. */
interface StepTimes {
  x: readonly number[];
  steps: readonly number[];
}

export interface Marked {
  id: string;
  createdAt: string;
  axis: Axis;
  /** The charts' points: the last step of each, and where it stands on the axis. */
  points: { steps: readonly number[]; x: readonly number[] };
  marks: readonly Mark[];
  evaluations: readonly Evaluation[];
  /** Null while it is not known: restarts then have no place. */
  times: StepTimes | null;
}

export function markersOf({
  id,
  createdAt,
  axis,
  points,
  marks,
  evaluations,
  times,
}: Marked): Marker[] {
  const page = `/sessions/${id}`;
  const stepPage = (step: number) => (step > 0 ? `${page}/steps/${String(step)}` : page);
  const put = (
    key: string,
    kind: MarkerKind,
    x: number | null,
    text: string,
    to: string,
  ): Marker[] => {
    const look = MARKER_KINDS.find((each) => each.kind === kind);
    return x === null || !look ? [] : [{ key, kind, x, text, to, colour: look.colour }];
  };
  const ofRecord = marks.flatMap((mark) => {
    const seconds = (Date.parse(mark.at) - Date.parse(createdAt)) / 1000;
    const step = mark.step ?? (times && stepAt(times, seconds));
    if (step === null) return [];
    const x =
      mark.kind === "restart" && axis === "time"
        ? within(seconds, points.x)
        : placeOf(step, axis, points);
    const [text, to] = markText(mark, step, { page, stepPage });
    return put(String(mark.cursor), mark.kind, x, text, to);
  });
  const ofEvaluations = evaluations.flatMap((one, at) => {
    const text = `Evaluation ${one.name} at step ${number(one.step)}: mean reward ${number(one.reward_mean)}`;
    // One before the first step has a place on the reward's chart alone, as its point there has.
    const x =
      axis === "step" && one.step < (points.x[0] ?? 0) ? one.step : placeOf(one.step, axis, points);
    return put(
      `evaluation ${String(at)}`,
      "evaluation",
      x,
      text,
      `${page}/tasks?to=${String(one.step)}`,
    );
  });
  return [...ofRecord, ...ofEvaluations];
}

function markText(
  mark: Mark,
  step: number,
  { page, stepPage }: { page: string; stepPage: (step: number) => string },
): [text: string, to: string] {
  const at = number(step);
  if (mark.kind === "checkpoint")
    return [
      `Checkpoint of step ${at}${mark.detail && ` (${mark.detail})`}, ${dateTime(mark.at)}`,
      stepPage(step),
    ];
  if (mark.kind === "change") return [`From step ${at}: ${mark.detail}`, `${page}/settings`];
  const reason = mark.detail && `: ${mark.detail}`;
  if (mark.kind === "refusal") return [`Step ${at} was refused${reason}`, stepPage(step)];
  return [`Restarted after step ${at}, ${dateTime(mark.at)}${reason}`, `${page}/health`];
}

/** The last step that was done by then; 0 before the first. */
export function stepAt({ x, steps }: StepTimes, seconds: number): number {
  let found = 0;
  x.forEach((place, at) => {
    if (place <= seconds) found = steps[at] ?? found;
  });
  return found;
}

/** Where a step stands on the axis: of one that is no point, where the last point before it stands. Null without points. */
export function placeOf(step: number, axis: Axis, { steps, x }: Marked["points"]): number | null {
  if (axis === "step") return within(step, x);
  const after = steps.findIndex((each) => each > step);
  return x[after === -1 ? x.length - 1 : Math.max(after - 1, 0)] ?? null;
}

function within(place: number, x: readonly number[]): number | null {
  const [first] = x;
  const last = x[x.length - 1];
  return first === undefined || last === undefined ? null : Math.min(Math.max(place, first), last);
}
