// What a long run is marked with: its checkpoints, refused steps and restarts over its whole length, beside those that its page follows live.
import { queryOptions } from "@tanstack/react-query";
import { eventsPage } from "./events";
import { metricsRead } from "./metrics";

const ENTRIES = 1000;
const POINTS = 1000;

/** The marks of the record, whatever came between them; of very many of a kind some from the first to the last. Once read they do not change; later ones come live. */
export function marksQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id, "marks"],
    queryFn: () => eventsPage(id, { marks: true, spread: true, limit: ENTRIES }),
    staleTime: Infinity,
  });
}

/** When each step was recorded, in seconds since the session's creation, as it was after so many restarts. */
export function stepTimesQuery(id: string, restarts: number) {
  return queryOptions({
    queryKey: ["session", id, "step times", restarts],
    queryFn: () =>
      metricsRead(id, { x: "time", names: "reward_mean", points: POINTS, extremes: false }),
    staleTime: Infinity,
  });
}
