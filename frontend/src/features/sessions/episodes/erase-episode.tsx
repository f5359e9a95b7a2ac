// Erasing what is kept of an episode, for those who may, while its session is ready or once it has ended.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { ApiError } from "../../../api/errors";
import { eraseEpisode } from "../../../api/episodes";
import { Button } from "../../../ui/button";
import { Confirm } from "../../../ui/dialog";
import { ErrorNotice } from "../../../ui/notice";
import { listPart } from "./episode-filter";

export function EraseEpisode({ id, episodeId }: { id: string; episodeId: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [address] = useSearchParams();
  const hasTried = useRef(false);
  const erase = useMutation({
    meta: { done: "The episode is erased" },
    mutationFn: async () => {
      try {
        await eraseEpisode(id, episodeId);
      } catch (problem) {
        // An erasure goes on where its connection was lost: the second try finds nothing.
        if (!(hasTried.current && problem instanceof ApiError && problem.status === 404))
          throw problem;
      } finally {
        hasTried.current = true;
      }
    },
    onSuccess: async () => {
      await navigate(`/sessions/${id}/episodes${listPart(address)}`);
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
