// Answers beside each other: the beginning of each, token by token in the colours of a measure, and where they part.
import { queryOptions } from "@tanstack/react-query";
import { timelinesPage } from "../../../api/episodes";
import type { EpisodeTimelines, TokenRun } from "../../../api/types";
import { number } from "../../../ui/format";
import { visible } from "../../../ui/plain-text";
import { Piece } from "./token-line";
import { heatOf, type Measure, type Scale } from "./token-heat";

const TOKENS = 400; // of each run of an answer; its page has the rest

export function answerQuery(id: string, episodeId: string) {
  return queryOptions({
    queryKey: ["session", id, "answer", episodeId],
    queryFn: () => timelinesPage(id, episodeId, TOKENS * 4),
    staleTime: 60_000,
  });
}

interface AnswerProps {
  told: EpisodeTimelines;
  measure: Measure;
  scale: Scale;
  /** So many tokens of the first run are those of the other answers too: they are shown once, elsewhere. */
  shared?: number;
}

export function AnswerTokens({ told, measure, scale, shared = 0 }: AnswerProps) {
  const runs = sampledRuns(told);
  if (runs.length === 0) return <p className="text-xs text-muted">No token was sampled.</p>;
  return (
    <div className="space-y-2 font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
      {runs.map((run, index) => {
        const from = index === 0 ? shared : 0;
        return (
          <p key={`${run.call ?? ""} ${String(run.start)}`}>
            {from > 0 && <span className="text-muted">… </span>}
            <RunTokens run={run} from={from} to={from + TOKENS} measure={measure} scale={scale} />
            {from > 0 && run.tokens === from && (
              <span className="text-muted">It ends where the others go on.</span>
            )}
            {run.tokens > from + TOKENS && (
              <span className="text-muted">
                {" "}
                … {number(run.tokens - from - TOKENS)} more tokens
              </span>
            )}
          </p>
        );
      })}
    </div>
  );
}

interface RunProps {
  run: TokenRun;
  /** Which tokens of it: up to before `to`. */
  from: number;
  to: number;
  measure: Measure;
  scale: Scale;
}

export function RunTokens({ run, from, to, measure, scale }: RunProps) {
  return run.pieces.slice(from, to).map((piece, at) => (
    <span key={at} data-heat={heatOf(run, from + at, measure, scale)}>
      <Piece text={visible(piece)} />
    </span>
  ));
}

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
