// Brings a model that is not served yet into its column.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { createServing } from "../../api/serving";
import { sessionsKey } from "../../api/sessions";
import { Button } from "../../ui/button";
import { ErrorNotice } from "../../ui/notice";
import { visible } from "../../ui/plain-text";

export function StartServing({
  model,
  onStarted,
}: {
  model: string;
  onStarted: (sessionId: string) => void;
}) {
  const client = useQueryClient();
  const start = useMutation({
    mutationFn: () => createServing(model),
    onSuccess: async ({ id }) => {
      await client.invalidateQueries({ queryKey: sessionsKey });
      onStarted(id);
    },
  });
  return (
    <div className="space-y-2">
      <ErrorNotice error={start.error} />
      <p className="text-xs text-muted">
        {visible(model)} is not served now. A runtime of it uses device time, and suspends after ten
        minutes without a call.
      </p>
      <Button
        disabled={start.isPending}
        onClick={() => {
          start.mutate();
        }}
      >
        Start it
      </Button>
    </div>
  );
}
