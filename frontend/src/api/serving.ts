// Sessions that serve a model and train nothing, and the addresses that their calls go to.
import { queryOptions } from "@tanstack/react-query";
import { get, post } from "./client";
import type { Page, ServingEndpoint, Session } from "./types";

const GOING = ["queued", "provisioning", "loading", "ready", "suspended"];
const MOST = 100;

/** Those that answer calls, or will. */
export const servingQuery = queryOptions({
  queryKey: ["sessions", "serving"],
  queryFn: () => get<Page<Session>>(`/v1/sessions?kind=serving&limit=${String(MOST)}&${GOING.map((state) => `state=${state}`).join("&")}`),
  refetchInterval: 3_000,
});

/** Runs whose policy can be asked now. */
export const liveRunsQuery = queryOptions({
  queryKey: ["sessions", "live"],
  queryFn: () => get<Page<Session>>(`/v1/sessions?kind=episodes&state=ready&limit=${String(MOST)}`),
  refetchInterval: 5_000,
});

/** `model`: a base model, or the id of a checkpoint of kind model. */
export function createServing(model: string, name = ""): Promise<Session> {
  return post("/v1/serving", { model, name });
}

export function createServingKey(sessionId: string, days: number): Promise<ServingEndpoint> {
  return post(`/v1/sessions/${sessionId}/serving-keys`, { expires_in_days: days });
}

/** What a session of kind serving serves. */
export function servedModel(session: Session): string {
  return session.served_checkpoint_id ?? session.base_model;
}
