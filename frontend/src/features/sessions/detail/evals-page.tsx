// What evaluations of a run came to, set by set: the latest of each in all, and by task.
import { useQuery } from "@tanstack/react-query";
import { memo, useMemo } from "react";
import { Link } from "react-router";
import { lastMeasuresQuery } from "../../../api/metrics";
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Session, Evaluation } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, Panel } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { cell, Table } from "../../../ui/table";
import { RunPage } from "../run-page";
import { evaluatedSets, type EvaluatedSet } from "./evaluated-tasks";

export function EvalsPage() {
  return <RunPage title="Evals" of={Evals} />;
}

function Evals({ session }: { session: Session }) {
  const { data, error } = useQuery(lastMeasuresQuery(session.id, !hasEnded(session)));
  if (!data) return error ? <ErrorNotice error={error} /> : <Loading />;
  if (data.played.length === 0) {
    const played = session.accounting.eval;
    return played > 0 ? (
      <Empty title="No evaluation has a name">
        <p className="mb-3">
          {played === 1 ? "One episode was" : `${number(played)} episodes were`} played with{" "}
          <code>eval=True</code>. What <code>session.evaluate</code> plays has a mean here, and one
          curve beside that of training.
        </p>
        <ButtonLink to={`/sessions/${session.id}/episodes?fate=eval`}>Show them</ButtonLink>
      </Empty>
    ) : (
      <Empty title="No evaluation yet">
        <p className="mb-3">
          <code>session.evaluate(agent, held_out_tasks)</code> plays tasks that are not trained.
          Their mean reward then stands beside that of training.
        </p>
        {!isExported && <ButtonLink to="/manual/howto/evaluation">How to evaluate</ButtonLink>}
      </Empty>
    );
  }
  return <EvaluationsPanel id={session.id} evaluations={data.played} />;
}

const HEAD = [
  { name: "Task" },
  { name: "First", right: true },
  { name: "Latest", right: true },
  { name: "Spread", right: true },
  { name: "Episodes", right: true },
];

/** Hidden where nothing was evaluated. */
const EvaluationsPanel = memo(function EvaluationsPanel({
  id,
  evaluations,
}: {
  id: string;
  evaluations: readonly Evaluation[];
}) {
  const sets = useMemo(() => evaluatedSets(evaluations), [evaluations]);
  if (sets.length === 0) return null;
  return (
    <Panel title="Evaluations">
      <div className="divide-y divide-line">
        {sets.map((set) => (
          <EvaluatedTasks key={set.last.name} id={id} set={set} />
        ))}
      </div>
    </Panel>
  );
});

function EvaluatedTasks({ id, set: { first, last, tasks } }: { id: string; set: EvaluatedSet }) {
  return (
    <section aria-label={`Evaluation ${visible(last.name)}`}>
      <h3 className="px-4 pt-3 font-medium">
        <UserText text={last.name} />
      </h3>
      <p className="px-4 pb-2 text-sm text-muted">{summaryOf(first, last)}</p>
      {Object.keys(last.metrics).length > 0 && (
        <p className="px-4 pb-2 text-sm text-muted">
          <UserText
            text={Object.entries(last.metrics)
              .map(([name, mean]) => `${name} ${number(mean)}`)
              .join(", ")}
          />
        </p>
      )}
      {tasks.length > 0 && (
        <div className="max-h-[70vh] overflow-y-auto">
          <Table label={`Tasks of ${visible(last.name)}`} head={HEAD}>
            {tasks.map((task) => (
              <tr key={task.task}>
                <td className={`${cell} wrap-anywhere`}>
                  <Link
                    to={`/sessions/${id}/tasks?of=held-out&from=${String(first.step)}&to=${String(last.step)}&task=${encodeURIComponent(task.task)}`}
                    className="rounded text-accent hover:underline"
                  >
                    <UserText text={task.task} />
                  </Link>
                </td>
                <td className={`${cell} text-right`}>{number(task.before)}</td>
                <td className={`${cell} text-right`}>{number(task.mean)}</td>
                <td className={`${cell} text-right`}>
                  {task.spread === null ? "–" : `± ${number(task.spread)}`}
                </td>
                <td className={`${cell} text-right`}>{number(task.episodes)}</td>
              </tr>
            ))}
          </Table>
        </div>
      )}
    </section>
  );
}

function summaryOf(first: Evaluation, last: Evaluation): string {
  const spread = last.reward_std === null ? "" : ` ± ${number(last.reward_std)}`;
  const before =
    first === last ? "" : ` (${number(first.reward_mean)} at step ${number(first.step)})`;
  const success =
    last.success_rate === null ? "" : `, success ${number(last.success_rate * 100)} %`;
  const failed = last.failed === 0 ? "" : `, ${number(last.failed)} failed and in no mean`;
  return `Step ${number(last.step)}: reward ${number(last.reward_mean)}${spread}${before}${success}, ${number(last.episodes)} episodes${failed}`;
}
