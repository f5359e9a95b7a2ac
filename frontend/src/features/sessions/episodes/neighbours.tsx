// To what comes before and after, by J and K and as buttons: in a group, and in the list that an episode was opened from.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useMemo } from "react";
import { useLocation, useNavigate, useSearchParams } from "react-router";
import { neighboursQuery, stepQuery } from "../../../api/episodes";
import type { Episode, EpisodeNeighbours, Group } from "../../../api/types";
import { Button } from "../../../ui/button";
import { filterOf } from "./episode-filter";
import { groupPath } from "./places";
import { useKeys } from "./use-keys";

interface PreviousNextProps<T> {
  /** Null, or not known yet: there is none. */
  previous: T | null | undefined;
  next: T | null | undefined;
  onGo: (to: T) => void;
}

export function PreviousNext<T>({ previous, next, onGo }: PreviousNextProps<T>) {
  const go = (to: T | null | undefined) => {
    if (to !== null && to !== undefined) onGo(to);
  };
  useKeys({
    j: () => {
      go(next);
    },
    k: () => {
      go(previous);
    },
  });
  return (
    <>
      <Button
        onClick={() => {
          go(previous);
        }}
        disabled={previous === null || previous === undefined}
        title="K"
      >
        <ChevronLeft className="size-3.5" />
        Previous
      </Button>
      <Button
        onClick={() => {
          go(next);
        }}
        disabled={next === null || next === undefined}
        title="J"
      >
        Next
        <ChevronRight className="size-3.5" />
      </Button>
    </>
  );
}

export function bestFirst({ episodes }: Group): Episode[] {
  return [...episodes].sort((one, other) => (other.reward ?? 0) - (one.reward ?? 0));
}

/** Through the episodes of one group, the best first, as its answers stand beside each other. */
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
  const ids = group ? bestFirst(group).map((episode) => episode.episode_id) : [];
  const at = ids.indexOf(episodeId);
  const onGo = (to: string) => {
    void navigate({
      pathname: `${groupPath(id, step, groupKey)}/episodes/${to}`,
      search: withoutToken(address),
    });
  };
  return (
    <div className={PLACE}>
      <PreviousNext previous={ids[at - 1]} next={at < 0 ? undefined : ids[at + 1]} onGo={onGo} />
    </div>
  );
}

/** Through the list that stands in the address, after a reload and from a link too. */
export function ListNeighbours({ id, episodeId }: { id: string; episodeId: string }) {
  const [address] = useSearchParams();
  const navigate = useNavigate();
  const client = useQueryClient();
  const came = useLocation().state as Partial<EpisodeNeighbours> | null; // while the neighbours are asked for: the one it came from
  const filter = useMemo(() => filterOf(address), [address]);
  const { data } = useQuery(neighboursQuery(id, episodeId, filter));
  const { previous, next } = data ?? { previous: came?.previous, next: came?.next };
  useEffect(() => {
    for (const beside of [data?.previous, data?.next])
      if (beside) void client.prefetchQuery(neighboursQuery(id, beside, filter));
  }, [client, id, data, filter]);
  const onGo = (to: string) => {
    void navigate(
      { pathname: `/sessions/${id}/episodes/${to}`, search: withoutToken(address) },
      { state: to === next ? { previous: episodeId } : { next: episodeId } },
    );
  };
  return (
    <div className={PLACE}>
      <PreviousNext previous={previous} next={next} onGo={onGo} />
    </div>
  );
}

const PLACE = "flex items-center gap-2 max-sm:my-2 sm:float-right";

/** What the next episode's address keeps of this one's: all but the token that is chosen. */
function withoutToken(address: URLSearchParams): string {
  const kept = new URLSearchParams(address);
  for (const name of ["token", "line"]) kept.delete(name);
  return kept.toString();
}
