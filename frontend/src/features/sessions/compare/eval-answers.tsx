// What the runs answer to the same held-out task: the newest evaluation episode of each, beside each other.
import { useQueries } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { episodesRead } from "../../../api/episodes";
import type { Episode } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { inputClass } from "../../../ui/field";
import { number } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { answerQuery, AnswerTokens, sampledRuns } from "../episodes/answer-tokens";
import { MeasureChoice } from "../episodes/measure-choice";
import { measureOf, scaleOf } from "../episodes/token-heat";
import type { Compared } from "./overlay-charts";

const LOOKED_AT = 200; // the newest evaluation episodes of each run

function evalEpisodesQuery(id: string) {
  return {
    queryKey: ["session", id, "evaluation episodes"],
    queryFn: () => episodesRead(id, { eval: true, sort: "newest", limit: LOOKED_AT }),
  };
}

function evalEpisodeQuery(id: string, task: string) {
  return {
    queryKey: ["session", id, "evaluation episodes", task],
    queryFn: () => episodesRead(id, { eval: true, fate: ["eval"], task, sort: "newest", limit: 1 }),
    enabled: task !== "",
  };
}

export function EvalAnswers({ runs }: { runs: readonly Compared[] }) {
  const [address, setAddress] = useAddress();
  const lists = useQueries({ queries: runs.map(({ session }) => evalEpisodesQuery(session.id)) });
  const tasks = evalTasks(lists.map((list) => list.data?.items ?? []));
  const asked = address.get("task") ?? "";
  const task = asked || (tasks[0]?.task ?? "");
  const pending = lists.some((list) => list.isPending);
  const failed = lists.find((list) => list.error);
  return (
    <Panel title="The same evaluation task">
      <div className="space-y-3 p-4">
        <ErrorNotice error={failed?.error ?? null} />
        {pending && <p className="text-muted">Loading…</p>}
        {!pending && tasks.length === 0 && (
          <p className="text-muted">
            None of these runs has an evaluation episode with a task. Begin one with
            begin_episode(task=…, eval=True).
          </p>
        )}
        {tasks.length > 0 && (
          <>
            <div className="flex flex-wrap items-center gap-4 text-xs">
              <label className="flex items-center gap-2">
                Task
                <select
                  className={`${inputClass} max-w-96 text-sm`}
                  value={task}
                  onChange={(event) => {
                    setAddress({ task: event.target.value });
                  }}
                >
                  {!tasks.some((one) => one.task === task) && (
                    <option value={task}>{visible(task)}</option>
                  )}
                  {tasks.map((one) => (
                    <option key={one.task} value={one.task}>
                      {`${visible(one.task)} (${String(one.runs)} of ${String(runs.length)} runs)`}
                    </option>
                  ))}
                </select>
              </label>
            </div>
            <Answers runs={runs} task={task} />
          </>
        )}
      </div>
    </Panel>
  );
}

function Answers({ runs, task }: { runs: readonly Compared[]; task: string }) {
  const [address] = useSearchParams();
  const measure = measureOf(address);
  const found = useQueries({
    queries: runs.map(({ session }) => evalEpisodeQuery(session.id, task)),
  });
  const episodes = found.map((one) => one.data?.items[0]);
  const tokens = useQueries({
    queries: runs.map(({ session }, at) => ({
      ...answerQuery(session.id, episodes[at]?.episode_id ?? ""),
      enabled: episodes[at] !== undefined,
    })),
  });
  const scale = scaleOf(tokens.flatMap((one) => (one.data ? sampledRuns(one.data) : [])));
  return (
    <>
      <MeasureChoice measure={measure} scale={scale} />
      <div
        tabIndex={0}
        role="region"
        aria-label="Answers"
        className="flex gap-3 overflow-x-auto pb-2"
      >
        {runs.map((run, at) => {
          const episode = episodes[at];
          const told = tokens[at]?.data;
          return (
            <section
              key={run.session.id}
              aria-label={`Answer of ${visible(run.name)}`}
              className="w-80 shrink-0 rounded-lg border border-line bg-surface"
            >
              <header
                className="border-b border-line px-3 py-2"
                style={{ borderTop: `3px solid var(${run.colour})` }}
              >
                <UserText
                  className="block truncate font-semibold"
                  title={visible(run.name)}
                  text={run.name}
                />
                {episode && <EpisodeFacts id={run.session.id} episode={episode} />}
              </header>
              <div className="p-3">
                <ErrorNotice error={found[at]?.error ?? tokens[at]?.error ?? null} />
                {found[at]?.isPending && <p className="text-xs text-muted">Loading…</p>}
                {found[at]?.data && !episode && (
                  <p className="text-xs text-muted">It did not play this task for evaluation.</p>
                )}
                {told && <AnswerTokens told={told} measure={measure} scale={scale} />}
              </div>
            </section>
          );
        })}
      </div>
    </>
  );
}

function EpisodeFacts({ id, episode }: { id: string; episode: Episode }) {
  return (
    <p className="text-xs text-muted tabular-nums">
      <Link
        to={`/sessions/${id}/episodes/${episode.episode_id}`}
        className="rounded text-accent underline underline-offset-2"
      >
        reward {number(episode.reward)}
      </Link>{" "}
      · version {number(episode.policy_version_last)} · {number(episode.sampled_tokens)} tokens
    </p>
  );
}

interface EvalTask {
  task: string;
  /** How many of the runs have played it. */
  runs: number;
}

export function evalTasks(lists: readonly (readonly Episode[])[]): EvalTask[] {
  const counts = new Map<string, number>();
  for (const episodes of lists) {
    const played = new Set(episodes.flatMap((episode) => (episode.task ? [episode.task] : [])));
    for (const task of played) counts.set(task, (counts.get(task) ?? 0) + 1);
  }
  return [...counts]
    .map(([task, runs]) => ({ task, runs }))
    .sort((a, b) => b.runs - a.runs || a.task.localeCompare(b.task));
}
