// The beginning of an answer, token by token in the colours of a measure, where several answers stand beside each other.
import { queryOptions } from "@tanstack/react-query";
import { timelinesPage } from "../../../api/episodes";
import type { EpisodeTimelines } from "../../../api/types";
import { number } from "../../../ui/format";
import { sampledRuns } from "./common-prefix";
import { visible } from "../../../ui/plain-text";
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
  /** So many tokens of the first run are those of the other answers too: they are dimmed. */
  shared?: number;
}

export function AnswerTokens({ told, measure, scale, shared = 0 }: AnswerProps) {
  const runs = sampledRuns(told);
  if (runs.length === 0) return <p className="text-xs text-muted">No token was sampled.</p>;
  return (
    <div className="space-y-2 font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
      {runs.map((run, index) => (
        <p key={`${run.call ?? ""} ${String(run.start)}`}>
          {run.pieces.slice(0, TOKENS).map((piece, at) => (
            <span key={at} data-heat={heatOf(run, at, measure, scale)} className={index === 0 && at < shared ? "opacity-50" : undefined}>
              {visible(piece)}
            </span>
          ))}
          {run.tokens > TOKENS && <span className="text-muted"> … {number(run.tokens - TOKENS)} more tokens</span>}
        </p>
      ))}
    </div>
  );
}
