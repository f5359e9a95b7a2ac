// Where each run stands: its last step as it was measured, its best, its evaluations.
import { useQueries } from "@tanstack/react-query";
import {
  lastMeasuresQuery,
  totalsQuery,
  type LastMeasures,
  type Totals,
} from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import { number, span } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { SortedTable, type SortedColumn } from "../../../ui/sorted-table";
import { cell, headCell } from "../../../ui/table";
import { UserText } from "../../../ui/user-text";
import { StateBadge } from "../state-badge";
import { bestStep } from "./best-step";
import type { Compared } from "./overlay-charts";

/** A run with what was measured of it, as far as it has arrived. */
interface Measured {
  run: Compared;
  last: LastMeasures | undefined;
  totals: Totals | undefined;
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

export function FinalTable({ runs }: { runs: readonly Compared[] }) {
  const last = useQueries({
    queries: runs.map(({ session }) => lastMeasuresQuery(session.id, !hasEnded(session))),
  });
  const totals = useQueries({
    queries: runs.map(({ session }) => totalsQuery(session.id, !hasEnded(session))),
  });
  const failed = [...last, ...totals].find((answer) => answer.error);
  return (
    <Panel title="Final measures">
      <ErrorNotice error={failed?.error ?? null} />
      <SortedTable
        label="Final measures of the runs"
        head={HEAD}
        rows={runs.map((run, at) => ({ run, last: last[at]?.data, totals: totals[at]?.data }))}
      >
        {(measured) => <FinalRow key={measured.run.session.id} {...measured} />}
      </SortedTable>
    </Panel>
  );
}

function FinalRow(measured: Measured) {
  const { run, last, totals } = measured;
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
    </tr>
  );
}
