// One task under several versions: what each earned, and what the two that are compared said.
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { taskEpisodesQuery } from "../../../api/task-episodes";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { cell, Table } from "../../../ui/table";
import { answerQuery, AnswerTokens, sampledRuns } from "../episodes/answer-tokens";
import { MeasureChoice } from "../episodes/measure-choice";
import { measureOf, scaleOf } from "../episodes/token-heat";
import { byVersion, type VersionOfTask } from "./task-changes";

interface TaskAnswersProps {
  id: string;
  task: string;
  isHeldOut: boolean;
  versions: readonly number[];
}

export function TaskAnswers({ id, task, isHeldOut, versions }: TaskAnswersProps) {
  const { data, error, isPending } = useQuery(taskEpisodesQuery(id, isHeldOut, task, versions));
  const rows = byVersion(data ?? []);
  const shown = versions.flatMap((version) => rows.filter((row) => row.version === version));
  return (
    <Panel title={visible(task)} isGiven>
      <div className="space-y-4 p-4">
        <ErrorNotice error={error} />
        {isPending && <Loading />}
        {data && rows.length === 0 && <p className="text-muted">No episode of this task ended.</p>}
        {shown.length > 0 && <Answers id={id} shown={shown} />}
      </div>
      {rows.length > 0 && (
        <Table
          label="The task by version"
          head={[
            { name: "Version" },
            { name: "Reward", right: true },
            { name: "Episodes", right: true },
            { name: "Newest answer" },
          ]}
        >
          {rows.map((row) => (
            <tr
              key={row.version}
              className={versions.includes(row.version) ? "bg-accent-soft" : undefined}
            >
              <td className={cell}>{row.version}</td>
              <td className={`${cell} text-right`}>{number(row.reward)}</td>
              <td className={`${cell} text-right`}>{number(row.episodes)}</td>
              <td className={`${cell} max-w-64`}>
                <Link
                  to={`/sessions/${id}/episodes/${row.newest.episode_id}`}
                  className="line-clamp-2 rounded font-mono text-xs wrap-anywhere text-accent hover:underline"
                >
                  {visible(row.newest.answer || row.newest.episode_id)}
                </Link>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Answers({ id, shown }: { id: string; shown: readonly VersionOfTask[] }) {
  const [address] = useSearchParams();
  const measure = measureOf(address);
  const answers = useQueries({
    queries: shown.map(({ newest }) => answerQuery(id, newest.episode_id)),
  });
  const scale = scaleOf(answers.flatMap(({ data }) => (data ? sampledRuns(data) : [])));
  return (
    <>
      <MeasureChoice measure={measure} scale={scale} />
      <div className="grid gap-3 sm:grid-cols-2">
        {shown.map(({ version, newest }, at) => (
          <section
            key={version}
            aria-label={`Answer of version ${String(version)}`}
            className="min-w-0 rounded-lg border border-line bg-surface"
          >
            <header className="border-b border-line px-3 py-2">
              <Link
                to={`/sessions/${id}/episodes/${newest.episode_id}`}
                className="rounded font-semibold text-accent tabular-nums hover:underline"
              >
                Version {version}
              </Link>
              <p className="text-xs text-muted tabular-nums">
                reward {number(newest.reward)} · {number(newest.sampled_tokens)} tokens
              </p>
            </header>
            <div className="p-3">
              <ErrorNotice error={answers[at]?.error ?? null} />
              {answers[at]?.isPending && <p className="text-xs text-muted">Loading…</p>}
              {answers[at]?.data && (
                <AnswerTokens told={answers[at].data} measure={measure} scale={scale} />
              )}
            </div>
          </section>
        ))}
      </div>
    </>
  );
}
