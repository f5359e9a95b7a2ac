// The points of a run's charts over the axis that is chosen, finer where they are zoomed in.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { finerQuery, metricsQuery } from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import type { RunAxis } from "../../../ui/chart-axis";
import type { Range } from "../../../ui/chart-zoom";
import { isCoarse, pointsOf, recordedPoints, withFiner, type Points } from "../points";

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
