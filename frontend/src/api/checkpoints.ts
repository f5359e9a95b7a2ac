// Checkpoints of a session and the presigned URLs of their files.
import { queryOptions, skipToken } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import { at } from "./sessions";
import type { Checkpoint, CheckpointDownload, CheckpointKind } from "./types";

const ONE = "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}";
const one = (session_id: string, checkpoint_id: string) => ({
  params: { path: { session_id, checkpoint_id } },
});

export function isPending(checkpoint: Checkpoint): boolean {
  return checkpoint.state === "requested" || checkpoint.state === "uploading";
}

export function checkpointsQuery(sessionId: string) {
  return queryOptions({
    queryKey: ["session", sessionId, "checkpoints"],
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}/checkpoints", at(sessionId))),
    refetchInterval: (query) => (query.state.data?.items.some(isPending) ? 2_000 : 15_000),
  });
}

/** One that an address names; null: it names none. */
export function savedQuery(ids: { sessionId: string; checkpointId: string } | null) {
  return queryOptions({
    queryKey: ["checkpoint", ids?.sessionId, ids?.checkpointId],
    queryFn: ids ? () => unwrap(api.GET(ONE, one(ids.sessionId, ids.checkpointId))) : skipToken,
  });
}

/** Each file with an address that is good for some minutes. */
export function readDownload(sessionId: string, checkpointId: string): Promise<CheckpointDownload> {
  return unwrap(api.GET(`${ONE}/download`, one(sessionId, checkpointId)));
}

/** URLs expire: they are asked for when shown and not kept. */
export function downloadQuery(sessionId: string, checkpointId: string) {
  return queryOptions({
    queryKey: ["download", sessionId, checkpointId],
    queryFn: () => readDownload(sessionId, checkpointId),
    gcTime: 0,
    refetchInterval: (query) => {
      const expiresAt = query.state.data?.expires_at;
      return expiresAt ? Math.max(10_000, Date.parse(expiresAt) - Date.now() - 30_000) : false;
    },
  });
}

/** What it was made of does not change once it is committed. */
export function provenanceQuery(sessionId: string, checkpointId: string) {
  return queryOptions({
    queryKey: ["provenance", sessionId, checkpointId],
    queryFn: () => unwrap(api.GET(`${ONE}/provenance`, one(sessionId, checkpointId))),
    staleTime: 60_000,
  });
}

export function createCheckpoint(sessionId: string, kind: CheckpointKind): Promise<Checkpoint> {
  return unwrap(
    api.POST("/v1/sessions/{session_id}/checkpoints", { ...at(sessionId), body: { kind } }),
  );
}

/** A pinned checkpoint is kept until it is deleted, whatever its age. */
export function pinCheckpoint(checkpoint: Checkpoint, pinned: boolean): Promise<Checkpoint> {
  return unwrap(api.PATCH(ONE, { ...one(checkpoint.session_id, checkpoint.id), body: { pinned } }));
}

/** A published checkpoint of a tinker client can be read by every project of this server. */
export function publishCheckpoint(checkpoint: Checkpoint, isPublic: boolean): Promise<Checkpoint> {
  const where = one(checkpoint.session_id, checkpoint.id);
  return unwrap(isPublic ? api.POST(`${ONE}/publish`, where) : api.DELETE(`${ONE}/publish`, where));
}

export function deleteCheckpoint(checkpoint: Checkpoint): Promise<void> {
  return unwrap(api.DELETE(ONE, one(checkpoint.session_id, checkpoint.id)));
}
