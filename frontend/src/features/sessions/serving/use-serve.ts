// Serving a model leads to the page of its session.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { createServing } from "../../../api/serving";
import { sessionsKey } from "../../../api/sessions";

/** `model` is a base model or the id of a checkpoint. */
export function useServe() {
  const navigate = useNavigate();
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ model, name }: { model: string; name?: string }) => createServing(model, name),
    onSuccess: async (session) => {
      await client.invalidateQueries({ queryKey: sessionsKey });
      await navigate(`/sessions/${session.id}`);
    },
  });
}
