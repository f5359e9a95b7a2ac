// Through the episodes of one group, the best first, as its answers stand beside each other.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearchParams } from "react-router";
import { stepQuery } from "../../../api/episodes";
import type { Episode, Group } from "../../../api/types";
import { neighbours } from "./episode-filter";
import { groupPath } from "./places";
import { PreviousNext } from "./previous-next";

export function bestFirst({ episodes }: Group): Episode[] {
  return [...episodes].sort((one, other) => (other.reward ?? 0) - (one.reward ?? 0));
}

export function GroupNeighbours({
  id,
  step,
  groupKey,
  episodeId,
}: {
  id: string;
  step: string;
  groupKey: string;
  episodeId: string;
}) {
  const [address] = useSearchParams();
  const navigate = useNavigate();
  const { data } = useQuery(stepQuery(id, Number(step)));
  const group = data?.groups.find((each) => each.group_key === groupKey);
  const { previous, next } = neighbours(
    group ? bestFirst(group).map((episode) => episode.episode_id) : [],
    episodeId,
  );
  const onGo = (to: string) => {
    const kept = new URLSearchParams(address);
    for (const name of ["token", "line"]) kept.delete(name);
    void navigate({
      pathname: `${groupPath(id, step, groupKey)}/episodes/${to}`,
      search: kept.toString(),
    });
  };
  return (
    <div className="flex items-center gap-2 max-sm:my-2 sm:float-right">
      <PreviousNext previous={previous} next={next} onGo={onGo} />
    </div>
  );
}
