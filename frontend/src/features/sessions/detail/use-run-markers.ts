// The marks of a run's charts: those of the record that its page follows, and of a long run all that were before.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { marksQuery, stepTimesQuery } from "../../../api/marks";
import type { Evaluation, Session, StepMetrics } from "../../../api/types";
import { markOf, marksJoined } from "../../../live/marks";
import { KEPT_ENTRIES, type SessionRecord } from "../../../live/record";
import type { Axis } from "../../../ui/chart-axis";
import type { Marker } from "../../../ui/chart-marks";
import { markersOf } from "./run-markers";

interface Charted {
  session: Session;
  record: SessionRecord;
  evaluations: readonly Evaluation[];
  axis: Axis;
  steps: readonly StepMetrics[];
  x: readonly number[];
}

export interface RunMarkers {
  markers: Marker[];
  /** So many of the record's marks are not among them. */
  leftOut: number;
}

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
