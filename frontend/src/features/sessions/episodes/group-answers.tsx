// The answers of one group beside each other, best first, each from the first token where they part.
import { useQueries } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import type { Episode, Group } from "../../../api/types";
import { number } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { partingAt, sampledRuns, AnswerTokens, RunTokens, answerQuery } from "./answer-tokens";
import { bestFirst } from "./neighbours";
import { episodePath } from "./places";
import { MeasureChoice } from "./measure-choice";
import { measureOf, scaleOf } from "./token-heat";
import { CutText } from "../../../ui/cut-text";

const MOST = 16;

export function GroupAnswers({ id, group }: { id: string; group: Group }) {
  const [address] = useSearchParams();
  const measure = measureOf(address);
  const episodes = bestFirst(group).slice(0, MOST);
  const answers = useQueries({
    queries: episodes.map((episode) => answerQuery(id, episode.episode_id)),
  });
  const told = answers.map((answer) => answer.data);
  const known = told.filter((each) => each !== undefined);
  const scale = scaleOf(known.flatMap((each) => sampledRuns(each)));
  // While some are on their way it is not known where they part.
  const isWhole = answers.every((answer) => !answer.isPending);
  const firsts = known.flatMap((each) => sampledRuns(each).slice(0, 1));
  const shared =
    isWhole && firsts.length === known.length ? partingAt(firsts.map((run) => run.token_ids)) : 0;
  const prompt = known[0]?.timelines[0]?.runs.find((run) => run.call === null)?.text;
  return (
    <div className="min-w-0 space-y-3">
      <MeasureChoice measure={measure} scale={scale} />
      {prompt !== undefined && (
        <div className="rounded-lg border border-line bg-surface p-3 font-mono text-xs whitespace-pre-wrap wrap-anywhere text-muted">
          <CutText text={prompt} most={600} />
        </div>
      )}
      {shared > 0 && firsts[0] && (
        <section
          aria-label="What all answers begin with"
          className="rounded-lg border border-line bg-surface p-3"
        >
          <p className="mb-1 text-xs text-muted">
            All {number(known.length)} begin with{" "}
            {shared === 1 ? "this token" : `these ${number(shared)} tokens`}, and part at the next:
          </p>
          <p className="max-h-40 overflow-y-auto font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
            <RunTokens run={firsts[0]} from={0} to={shared} measure={measure} scale={scale} />
          </p>
        </section>
      )}
      <div
        tabIndex={0}
        role="region"
        aria-label="Answers"
        className="flex gap-3 overflow-x-auto pb-2 print:flex-wrap"
      >
        {episodes.map((episode, at) => (
          <section
            key={episode.episode_id}
            aria-label={`Answer ${String(at + 1)}`}
            className="w-72 shrink-0 rounded-lg border border-line bg-surface"
          >
            <AnswerHead id={id} episode={episode} />
            <div className="p-3">
              <ErrorNotice error={answers[at]?.error ?? null} />
              {answers[at]?.isPending && <p className="text-xs text-muted">Loading…</p>}
              {told[at] && (
                <AnswerTokens told={told[at]} measure={measure} scale={scale} shared={shared} />
              )}
            </div>
          </section>
        ))}
      </div>
      {group.episodes.length > MOST && (
        <p className="text-xs text-muted">
          The best {MOST} of {group.episodes.length}.
        </p>
      )}
    </div>
  );
}

function AnswerHead({ id, episode }: { id: string; episode: Episode }) {
  return (
    <header className="border-b border-line px-3 py-2">
      <Link
        to={episodePath(id, episode)}
        className="rounded font-semibold text-accent tabular-nums hover:underline"
      >
        Reward {number(episode.reward)}
      </Link>
      <p className="text-xs text-muted tabular-nums">
        advantage {number(episode.advantage)} · {number(episode.sampled_tokens)} tokens ·{" "}
        {number(episode.calls)} {episode.calls === 1 ? "call" : "calls"}
      </p>
    </header>
  );
}
