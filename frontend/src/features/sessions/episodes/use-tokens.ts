// The tokens of an episode that are shown: from its beginning, or around the token that the address names, however far in it is.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { timelinesQuery } from "../../../api/episodes";
import type { EpisodeTimelines, TokenRun, TokenTimeline } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
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
    setAddress({ line: "", token: "" });
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

/** The pages of an episode’s tokens as one: a timeline, and a run in it, may go on from page to page. */
export function joinPages(pages: EpisodeTimelines[]): EpisodeTimelines {
  const [first] = pages;
  if (!first) throw new Error("there is a first page");
  const timelines: TokenTimeline[] = [];
  for (const page of pages) {
    for (const timeline of page.timelines) {
      const last = timelines[timelines.length - 1];
      if (last?.index === timeline.index)
        timelines[timelines.length - 1] = { ...last, runs: joinRuns(last.runs, timeline.runs) };
      else timelines.push(timeline);
    }
  }
  return { ...first, timelines, next_cursor: pages[pages.length - 1]?.next_cursor ?? null };
}

function joinRuns(before: TokenRun[], more: TokenRun[]): TokenRun[] {
  const last = before[before.length - 1];
  const [next, ...rest] = more;
  if (
    !last ||
    !next ||
    last.call === null ||
    last.call !== next.call ||
    last.answer !== next.answer
  )
    return [...before, ...more];
  const split = Object.fromEntries(
    Object.entries(next.split_bytes).map(([at, raw]) => [String(Number(at) + last.tokens), raw]),
  );
  const joined = {
    ...last,
    tokens: last.tokens + next.tokens,
    text: last.text + next.text,
    token_ids: [...last.token_ids, ...next.token_ids],
    pieces: [...last.pieces, ...next.pieces],
    logprobs: [...last.logprobs, ...next.logprobs],
    raw_logprobs: last.raw_logprobs &&
      next.raw_logprobs && [...last.raw_logprobs, ...next.raw_logprobs],
    trainer_logprobs: last.trainer_logprobs &&
      next.trainer_logprobs && [...last.trainer_logprobs, ...next.trainer_logprobs],
    trainer_logprobs_after: last.trainer_logprobs_after &&
      next.trainer_logprobs_after && [
        ...last.trainer_logprobs_after,
        ...next.trainer_logprobs_after,
      ],
    policy_versions: [...last.policy_versions, ...next.policy_versions],
    split_bytes: { ...last.split_bytes, ...split },
  };
  return [...before.slice(0, -1), joined, ...rest];
}
