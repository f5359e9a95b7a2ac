// Writes the weights that a run has now as a checkpoint of kind model. A Tinker client saves its models itself.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { checkpointsQuery, createCheckpoint } from "../../../api/checkpoints";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { Button } from "../../../ui/button";
import { useErrorToast } from "../../../ui/toasts";
import { useMayWrite } from "../../../use-may-write";

/** Nothing where it would be refused for good. */
export function ExportModel({ session }: { session: Session }) {
  const client = useQueryClient();
  const mayWrite = useMayWrite();
  const save = useMutation({
    meta: { done: "The model is being exported" },
    mutationFn: () => createCheckpoint(session.id, "model"),
    onSuccess: () => client.invalidateQueries({ queryKey: checkpointsQuery(session.id).queryKey }),
  });
  useErrorToast(`export ${session.id}`, save.error);
  if (session.kind !== "episodes" || !mayWrite || hasEnded(session)) return null;
  return (
    <Button
      onClick={() => {
        save.mutate();
      }}
      disabled={save.isPending || session.state !== "ready"}
      title={
        session.state === "ready" ? undefined : "A model can be exported while the session is ready"
      }
    >
      Export model
    </Button>
  );
}
