// The entries of a run's record.
import { unwrap, api } from "./client";
import type { operations } from "./schema";
import type { ReadEvents } from "./types";

export function eventsPage(
  id: string,
  query: NonNullable<operations["event_list"]["parameters"]["query"]>,
): Promise<ReadEvents> {
  return unwrap(
    api.GET("/v1/sessions/{session_id}/events", { params: { path: { session_id: id }, query } }),
  );
}
