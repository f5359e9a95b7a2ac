// The pages of an episode's tokens as one: a timeline, and a run in it, may go on from page to page.
import type { EpisodeTimelines, TokenRun, TokenTimeline } from "../../../api/types";

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
