// Sessions that serve a model and train nothing, and the addresses that their calls go to.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { at } from "./sessions";
import type { ServingEndpoint, Session, SessionState } from "./types";

const GOING: SessionState[] = ["queued", "provisioning", "loading", "ready", "suspended"];
const MOST = 100;

/** Those that answer calls, or will. */
export const servingQuery = queryOptions({
  queryKey: ["sessions", "serving"],
  queryFn: () =>
    unwrap(
      api.GET("/v1/sessions", {
        params: { query: { kind: ["serving"], limit: MOST, state: GOING } },
      }),
    ),
  refetchInterval: 3_000,
});

/** Runs whose policy can be asked now. */
export const liveRunsQuery = queryOptions({
  queryKey: ["sessions", "live"],
  queryFn: () =>
    unwrap(
      api.GET("/v1/sessions", {
        params: { query: { kind: ["episodes"], limit: MOST, state: ["ready"] } },
      }),
    ),
  refetchInterval: 5_000,
});

/** `model`: a base model, or the id of a checkpoint of kind model. */
export function createServing(model: string, name = ""): Promise<Session> {
  return unwrap(api.POST("/v1/serving", { body: { model, name } }));
}

export function createServingKey(sessionId: string, days: number): Promise<ServingEndpoint> {
  const body = { expires_in_days: days };
  return unwrap(api.POST("/v1/sessions/{session_id}/serving-keys", { ...at(sessionId), body }));
}

/** For what a Tinker client saved, which a runtime is started for where none is there. */
export function createCheckpointKey(
  sessionId: string,
  checkpointId: string,
  days: number,
): Promise<ServingEndpoint> {
  const path = { session_id: sessionId, checkpoint_id: checkpointId };
  return unwrap(
    api.POST("/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/serving-keys", {
      params: { path },
      body: { expires_in_days: days },
    }),
  );
}

/** What a session of kind serving serves. */
export function servedModel(session: Session): string {
  return session.served_checkpoint_id ?? session.base_model;
}
