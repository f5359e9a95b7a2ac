// Every step of a run in a row of its own, the newest first.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { stepsOf, stepsQuery } from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import type { Session, StepMetrics } from "../../../api/types";
import { number, seconds } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty } from "../../../ui/panel";
import { ShowOlder, cell, headCell, Table } from "../../../ui/table";
import { RunPage } from "../run-page";
import { stepPath } from "./places";

const COLUMNS: readonly [name: string, value: (step: StepMetrics) => string][] = [
  ["Reward", (step) => number(step.reward_mean)],
  ["Spread", (step) => `± ${number(step.reward_std)}`],
  ["KL", (step) => number(step.kl_engine)],
  ["Entropy", (step) => number(step.entropy)],
  ["Gradient norm", (step) => number(step.grad_norm)],
  ["Cut off", (step) => number(step.truncated)],
  ["Answer length", (step) => number(step.completion_length_mean)],
  ["Equal groups", (step) => `${number(step.groups_skipped)} of ${number(step.groups)}`],
  ["Tokens", (step) => number(step.tokens_trained)],
  ["Took", (step) => seconds(step.rollout_s + step.train_s + step.handover_s)],
];
const HEAD = [
  { name: "Step" },
  { name: "Loss", right: true },
  ...COLUMNS.map(([name]) => ({ name, right: true })),
  { name: "Episodes", right: true },
];

const underlined = "rounded text-accent hover:underline";

export function StepsPage() {
  return <RunPage title="Steps" of={Steps} />;
}

function Steps({ session }: { session: Session }) {
  const query = useInfiniteQuery(
    stepsQuery(session.id, session.policy_version, !hasEnded(session)),
  );
  const steps = query.data?.pages.flatMap((page) => stepsOf(page).toReversed()) ?? [];
  return (
    <>
      <ErrorNotice error={query.error} />
      {query.isPending && <Loading isTable />}
      {query.data && steps.length === 0 && (
        <Empty title="No step yet">
          A step follows once {number(session.config.tasks_per_batch)} groups of{" "}
          {number(session.config.grpo_n)} episodes have ended.
        </Empty>
      )}
      {steps.length > 0 && (
        <div className="rounded-lg border border-line bg-surface sm:[&_td]:px-2.5 sm:[&_td]:whitespace-nowrap sm:[&_th]:px-2.5">
          <Table label="Steps" head={HEAD}>
            {steps.map((step) => (
              <tr key={step.step} className="hover:bg-sunken">
                <th scope="row" className={headCell}>
                  <Link
                    to={stepPath(session.id, step.step)}
                    className="rounded text-accent hover:underline"
                  >
                    {step.step}
                  </Link>
                </th>
                <td className={`${cell} text-right`}>
                  <Link
                    to={`${stepPath(session.id, step.step)}?colour=loss`}
                    title="Which tokens drove it"
                    className={underlined}
                  >
                    {number(step.loss)}
                  </Link>
                </td>
                {COLUMNS.map(([name, value]) => (
                  <td key={name} className={`${cell} text-right`}>
                    {value(step)}
                  </td>
                ))}
                <td className={`${cell} text-right`}>
                  <Link
                    to={`/sessions/${session.id}/episodes?step=${String(step.step)}&sort=worst`}
                    aria-label={`Worst first, of step ${String(step.step)}`}
                    className={underlined}
                  >
                    Worst first
                  </Link>
                </td>
              </tr>
            ))}
          </Table>
        </div>
      )}
      <ShowOlder query={query} />
    </>
  );
}
