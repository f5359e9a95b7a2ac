// Erasing what is kept of an episode, for those who may, once its session has ended.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { eraseEpisode } from "../../../api/episodes";
import { Button } from "../../../ui/button";
import { Confirm } from "../../../ui/dialog";
import { ErrorNotice } from "../../../ui/notice";

export function EraseEpisode({ id, episodeId }: { id: string; episodeId: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const erase = useMutation({
    mutationFn: () => eraseEpisode(id, episodeId),
    onSuccess: async () => {
      await navigate(`/sessions/${id}/episodes`);
      client.removeQueries({ queryKey: ["session", id, "timelines", episodeId] });
      await client.invalidateQueries({ queryKey: ["session", id, "episodes"] });
    },
  });
  return (
    <div className="space-y-2">
      <ErrorNotice error={erase.error} />
      <Confirm
        trigger={
          <Button look="danger" disabled={erase.isPending}>
            {erase.isPending ? "Erasing…" : "Erase episode"}
          </Button>
        }
        title="Erase this episode?"
        description="Its prompts, answers, rewards and annotations are removed from the database, the object store and the archive. What the model learned from it stays. This cannot be undone."
        action="Erase episode"
        onConfirm={() => {
          erase.mutate();
        }}
      />
    </div>
  );
}
