// Where the answers of a group part: what they share from the beginning is shown once, and each goes on from there.
import type { EpisodeTimelines, TokenRun } from "../../../api/types";

/** The runs that were sampled, in the order of the timelines. */
export function sampledRuns(told: EpisodeTimelines): TokenRun[] {
  return told.timelines.flatMap((timeline) => timeline.runs.filter((run) => run.call !== null));
}

/** How many tokens all of these sequences begin with; 0 where there are fewer than two. */
export function commonPrefix(sequences: number[][]): number {
  const [first, ...others] = sequences;
  if (!first || others.length === 0) return 0;
  let length = 0;
  while (length < first.length && others.every((other) => other[length] === first[length]))
    length += 1;
  return length;
}

/** Where sequences that begin alike part; 0 where they are all the same, or only one is there: nothing parts then. */
export function partingAt(sequences: number[][]): number {
  const shared = commonPrefix(sequences);
  return sequences.some((each) => each.length > shared) ? shared : 0;
}
