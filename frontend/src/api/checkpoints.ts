// Checkpoints of a session and the presigned URLs of their files.
import { queryOptions } from "@tanstack/react-query";
import { get, patch, post, remove } from "./client";
import type { Checkpoint, CheckpointDownload, CheckpointKind, CheckpointProvenance, Items } from "./types";

export function isPending(checkpoint: Checkpoint): boolean {
  return checkpoint.state === "requested" || checkpoint.state === "uploading";
}

export function checkpointsQuery(sessionId: string) {
  return queryOptions({
    queryKey: ["session", sessionId, "checkpoints"],
    queryFn: () => get<Items<Checkpoint>>(`/v1/sessions/${sessionId}/checkpoints`),
    refetchInterval: (query) => (query.state.data?.items.some(isPending) ? 2_000 : 15_000),
  });
}

/** Each file with an address that is good for some minutes. */
export function readDownload(sessionId: string, checkpointId: string): Promise<CheckpointDownload> {
  return get(`/v1/sessions/${sessionId}/checkpoints/${checkpointId}/download`);
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
    queryFn: () => get<CheckpointProvenance>(`/v1/sessions/${sessionId}/checkpoints/${checkpointId}/provenance`),
    staleTime: 60_000,
  });
}

export function createCheckpoint(sessionId: string, kind: CheckpointKind): Promise<Checkpoint> {
  return post(`/v1/sessions/${sessionId}/checkpoints`, { kind });
}

/** A pinned checkpoint is kept until it is deleted, whatever its age. */
export function pinCheckpoint(checkpoint: Checkpoint, pinned: boolean): Promise<Checkpoint> {
  return patch(`/v1/sessions/${checkpoint.session_id}/checkpoints/${checkpoint.id}`, { pinned });
}

export function deleteCheckpoint(checkpoint: Checkpoint): Promise<void> {
  return remove(`/v1/sessions/${checkpoint.session_id}/checkpoints/${checkpoint.id}`);
}
