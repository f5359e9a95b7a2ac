// The tokens of an episode that are shown: from its beginning, or around the token that the address names, however far in it is.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { timelinesQuery } from "../../../api/episodes";
import type { EpisodeTimelines } from "../../../api/types";
import { useAddress, withPart } from "../../../ui/address-part";
import { joinPages } from "./join-pages";
import { endOf, numberOf, startFor } from "./outline";

const EARLIER = 4_500; // of a page of 5,000: so that the token that was the first stays in it

export interface ShownTokens {
  /** Calls, report and outline of the whole episode, and the timelines of what is loaded. */
  loaded: EpisodeTimelines | null;
  error: Error | null;
  isPending: boolean;
  /** Null: there is nothing more there, or it is on its way. */
  showMore: (() => void) | null;
  showEarlier: (() => void) | null;
  isFetching: boolean;
}

export function useTokens(
  queryFrom: (start: number) => ReturnType<typeof timelinesQuery>,
  episodeId: string,
): ShownTokens {
  const [address, setAddress] = useAddress();
  const [from, setFrom] = useState({ episodeId, start: 0 });
  const start = from.episodeId === episodeId ? from.start : 0;
  const first = useInfiniteQuery(queryFrom(0));
  const part = useInfiniteQuery(queryFrom(start));
  const head = first.data?.pages[0];
  const wanted =
    head?.outline && address.has("token")
      ? numberOf(head.outline, {
          line: Number(address.get("line") ?? "0"),
          token: Number(address.get("token")),
        })
      : null;
  if (part.data && first.data && wanted !== null && Number.isFinite(wanted)) {
    const next = startFor(wanted, start, endOf(part.data.pages), endOf(first.data.pages));
    if (next !== start) setFrom({ episodeId, start: next });
  }
  const loaded = useMemo(() => {
    if (!head) return null;
    return part.data
      ? {
          ...joinPages(part.data.pages),
          episode: head.episode,
          calls: head.calls,
          report: head.report,
          outline: head.outline,
        }
      : { ...head, timelines: [] };
  }, [head, part.data]);
  const earlier = () => {
    setAddress((before) => withPart(withPart(before, "line", ""), "token", ""), { replace: true });
    setFrom({ episodeId, start: Math.max(0, start - EARLIER) });
  };
  return {
    loaded,
    error: first.error ?? part.error,
    isPending: !(first.error ?? part.error) && !part.data,
    showMore: part.hasNextPage ? () => void part.fetchNextPage() : null,
    showEarlier: start > 0 ? earlier : null,
    isFetching: part.isFetchingNextPage,
  };
}
