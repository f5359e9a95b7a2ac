// What a run's charts show: its points over the axis that is chosen, finer where they are zoomed in, and its marks.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { marksQuery, stepTimesQuery, finerQuery, metricsQuery } from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import type { Session, Evaluation, StepMetrics } from "../../../api/types";
import { markOf, marksJoined } from "../../../live/marks";
import { KEPT_ENTRIES, type SessionRecord } from "../../../live/record";
import type { RunAxis, Axis, Range } from "../../../ui/chart-axis";
import type { Marker } from "../../../ui/chart-markers";
import { isCoarse, pointsOf, recordedPoints, withFiner, type Points } from "../points";
import { markersOf } from "./run-markers";

interface ShownPoints {
  points: Points;
  /** Of the whole run, however the charts are zoomed. */
  whole: Points;
  error: Error | null;
}

/** The live record has steps alone: what they stand at on another axis is asked for, and again while the session lives. */
export function usePoints(
  axis: RunAxis,
  session: Session,
  { steps, read }: SessionRecord,
  zoom: Range | null,
): ShownPoints {
  const isLive = !hasEnded(session);
  const over = useQuery({ ...metricsQuery(session.id, axis, isLive), enabled: axis !== "step" });
  const whole = useMemo(
    () => (axis === "step" ? recordedPoints(steps, read) : pointsOf(over.data)),
    [axis, steps, read, over.data],
  );
  const finer = useQuery(finerQuery(session.id, axis, isCoarse(whole) ? zoom : null, isLive));
  const points = useMemo(() => withFiner(whole, finer.data, zoom), [whole, finer.data, zoom]);
  return { points, whole, error: (axis === "step" ? null : over.error) ?? finer.error };
}

interface Charted {
  session: Session;
  record: SessionRecord;
  evaluations: readonly Evaluation[];
  axis: Axis;
  steps: readonly StepMetrics[];
  x: readonly number[];
}

interface RunMarkers {
  markers: Marker[];
  /** So many of the record's marks are not among them. */
  leftOut: number;
}

/** Those of the record that the page follows, and of a long run all that were before. */
export function useRunMarkers({
  session,
  record,
  evaluations,
  axis,
  steps,
  x,
}: Charted): RunMarkers {
  const { id, created_at: createdAt } = session;
  const isLong = record.timeline.length >= KEPT_ENTRIES;
  const { data: before } = useQuery({ ...marksQuery(id), enabled: isLong });
  const marks = useMemo(
    () => marksJoined(record.marks, before?.items.flatMap((item) => markOf(item) ?? []) ?? []),
    [record.marks, before],
  );
  const restarts = marks.filter(({ kind }) => kind === "restart").length;
  const { data: times } = useQuery({ ...stepTimesQuery(id, restarts), enabled: restarts > 0 });
  const markers = useMemo(
    () =>
      markersOf({
        id,
        createdAt,
        axis,
        points: { steps: steps.map(({ step }) => step), x },
        marks,
        evaluations,
        times: times ?? null,
      }),
    [id, createdAt, axis, steps, x, marks, evaluations, times],
  );
  return { markers, leftOut: before?.left_out ?? 0 };
}
