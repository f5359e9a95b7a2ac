// The beginning of an answer, token by token in the colours of a measure, where several answers stand beside each other.
import { queryOptions } from "@tanstack/react-query";
import { timelinesPage } from "../../../api/episodes";
import type { EpisodeTimelines, TokenRun } from "../../../api/types";
import { number } from "../../../ui/format";
import { sampledRuns } from "./common-prefix";
import { visible } from "../../../ui/plain-text";
import { Piece } from "./piece";
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
