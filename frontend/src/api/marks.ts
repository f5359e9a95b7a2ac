// What a long run is marked with from before the last entries of its record, which its page reads anyway.
import { queryOptions } from "@tanstack/react-query";
import { eventsPage } from "./events";
import { metricsRead } from "./metrics";

const ENTRIES = 1000;
const POINTS = 1000;

/** The last events without the phases between them. Once read they do not change; later ones come live. */
export function eventsQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id, "events"],
    queryFn: () => eventsPage(id, { newest: true, kind: ["event"], limit: ENTRIES }),
    staleTime: Infinity,
  });
}

/** When each step was recorded, in seconds since the session's creation, as it was after so many restarts. */
export function stepTimesQuery(id: string, restarts: number) {
  return queryOptions({
    queryKey: ["session", id, "step times", restarts],
    queryFn: () => metricsRead(id, { x: "time", names: "reward_mean", points: POINTS }),
    staleTime: Infinity,
  });
}
