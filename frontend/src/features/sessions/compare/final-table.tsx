// Where each run stands: its last step as it was measured, its best, its evaluations.
import { useQueries } from "@tanstack/react-query";
import {
  lastMeasuresQuery,
  totalsQuery,
  type LastMeasures,
  type Totals,
} from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import { spendingQuery } from "../../../api/usage";
import type { MetricColumns, Spending } from "../../../api/types";
import { money, number, span } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { SortedTable, type SortedColumn } from "../../../ui/sorted-table";
import { cell, headCell } from "../../../ui/table";
import { StateBadge } from "../state-badge";
import type { Compared } from "./overlay-charts";

/** The highest mean reward of one step, and where it was: a stretch where steps were put together. */
export function bestStep({
  columns,
  steps,
}: MetricColumns): { reward: number; place: string } | null {
  const column = columns.reward_mean;
  if (!column) return null;
  const values = column.high ?? column.last;
  let best = -1;
  values.forEach((value, at) => {
    if (value !== null && (best < 0 || value > (values[best] ?? -Infinity))) best = at;
  });
  const reward = values[best];
  if (reward === null || reward === undefined) return null;
  const last = steps[best] ?? 0;
  const first = (steps[best - 1] ?? 0) + 1;
  return {
    reward,
    place:
      column.high && first < last
        ? `steps ${String(first)} to ${String(last)}`
        : `step ${String(last)}`,
  };
}

/** A run with what was measured of it, as far as it has arrived. */
interface Measured {
  run: Compared;
  last: LastMeasures | undefined;
  totals: Totals | undefined;
  spending: Spending | undefined;
}

const best = ({ totals }: Measured) => totals && bestStep(totals.rewards);

const HEAD: SortedColumn<Measured>[] = [
  { name: "Run", value: ({ run }) => run.name },
  { name: "State", value: ({ run }) => run.session.state },
  { name: "Steps", right: true, value: ({ run }) => run.session.policy_version },
  { name: "Reward, last", right: true, value: ({ last }) => last?.step?.reward_mean },
  { name: "Reward, best", right: true, value: (one) => best(one)?.reward },
  { name: "Evaluation, last", value: ({ last }) => last?.evaluations[0]?.reward_mean },
  { name: "Entropy", right: true, value: ({ last }) => last?.step?.entropy },
  { name: "KL", right: true, value: ({ last }) => last?.step?.kl_engine },
  { name: "Length", right: true, value: ({ last }) => last?.step?.completion_length_mean },
  { name: "Tokens", right: true, value: ({ totals }) => totals?.tokens },
  { name: "Took", right: true, value: ({ totals }) => totals?.tookS },
];
/** Where the server has prices. */
const PRICED_HEAD: SortedColumn<Measured>[] = [
  ...HEAD,
  { name: "Cost", right: true, value: ({ spending }) => spending?.cost },
];

export function FinalTable({ runs }: { runs: readonly Compared[] }) {
  const last = useQueries({
    queries: runs.map(({ session }) => lastMeasuresQuery(session.id, !hasEnded(session))),
  });
  const totals = useQueries({
    queries: runs.map(({ session }) => totalsQuery(session.id, !hasEnded(session))),
  });
  const spending = useQueries({
    queries: runs.map(({ session }) => spendingQuery(session.id, !hasEnded(session))),
  });
  const answers = [...last, ...totals, ...spending];
  const failed = answers.find((answer) => answer.error);
  const currency = spending.find(({ data }) => data?.prices)?.data?.prices?.currency;
  return (
    <Panel title="Final measures">
      <ErrorNotice error={failed?.error ?? null} />
      {answers.some((answer) => answer.isPending) ? (
        <Loading isTable />
      ) : (
        <SortedTable
          label="Final measures of the runs"
          head={currency ? PRICED_HEAD : HEAD}
          rows={runs.map((run, at) => ({
            run,
            last: last[at]?.data,
            totals: totals[at]?.data,
            spending: spending[at]?.data,
          }))}
        >
          {(measured) => (
            <FinalRow key={measured.run.session.id} measured={measured} currency={currency} />
          )}
        </SortedTable>
      )}
    </Panel>
  );
}

interface FinalRowProps {
  measured: Measured;
  /** Of the prices; none: no money is shown. */
  currency: string | undefined;
}

function FinalRow({ measured, currency }: FinalRowProps) {
  const { run, last, totals, spending } = measured;
  const right = `${cell} text-right`;
  const peak = best(measured);
  const took = totals?.tookS ?? null;
  return (
    <tr>
      <th scope="row" className={`${headCell} max-w-56`}>
        <span className="flex items-center gap-2">
          <span
            aria-hidden
            className="size-2.5 shrink-0 rounded-full"
            style={{ background: `var(${run.colour})` }}
          />
          <UserText className="truncate" title={visible(run.name)} text={run.name} />
        </span>
      </th>
      <td className={cell}>
        <StateBadge state={run.session.state} />
      </td>
      <td className={right}>{number(run.session.policy_version)}</td>
      <td className={right}>{number(last?.step?.reward_mean)}</td>
      <td className={right}>
        {number(peak?.reward)}
        {peak && <span className="block text-xs text-muted">{peak.place}</span>}
      </td>
      <td className={cell}>
        {last?.evaluations.map((one) => (
          <span key={one.name} className="block sm:whitespace-nowrap">
            <UserText className="text-muted" text={one.name} /> {number(one.reward_mean)}{" "}
            <span className="text-xs text-muted">step {one.step}</span>
          </span>
        ))}
        {last?.evaluations.length === 0 && "–"}
      </td>
      <td className={right}>{number(last?.step?.entropy)}</td>
      <td className={right}>{number(last?.step?.kl_engine)}</td>
      <td className={right}>{number(last?.step?.completion_length_mean)}</td>
      <td className={right}>{number(totals?.tokens)}</td>
      <td className={`${right} whitespace-nowrap`}>{took === null ? "–" : span(took)}</td>
      {currency && <td className={right}>{money(spending?.cost, currency)}</td>}
    </tr>
  );
}
