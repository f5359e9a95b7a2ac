// Where each run stands: its last step as it was measured, its best, its evaluations.
import { useQueries } from "@tanstack/react-query";
import { lastMeasuresQuery, totalsQuery, type LastMeasures, type Totals } from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import { number, span } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { cell, headCell, Table } from "../../../ui/table";
import { visible } from "../../../ui/plain-text";
import { StateBadge } from "../state-badge";
import { bestStep } from "./best-step";
import type { Compared } from "./overlay-charts";

const HEAD = ["Run", "State", "Steps", "Reward, last", "Reward, best", "Evaluation, last", "Entropy", "KL", "Length", "Tokens", "Took"].map((name, at) => ({
  name,
  right: at > 1 && name !== "Evaluation, last",
}));

export function FinalTable({ runs }: { runs: readonly Compared[] }) {
  const last = useQueries({ queries: runs.map(({ session }) => lastMeasuresQuery(session.id, !hasEnded(session))) });
  const totals = useQueries({ queries: runs.map(({ session }) => totalsQuery(session.id, !hasEnded(session))) });
  const failed = [...last, ...totals].find((answer) => answer.error);
  return (
    <Panel title="Final measures">
      <ErrorNotice error={failed?.error ?? null} />
      <Table label="Final measures of the runs" head={HEAD}>
        {runs.map((run, at) => (
          <FinalRow key={run.session.id} run={run} last={last[at]?.data} totals={totals[at]?.data} />
        ))}
      </Table>
    </Panel>
  );
}

interface RowProps {
  run: Compared;
  last: LastMeasures | undefined;
  totals: Totals | undefined;
}

function FinalRow({ run, last, totals }: RowProps) {
  const right = `${cell} text-right`;
  const best = totals && bestStep(totals.rewards);
  const took = totals?.tookS ?? null;
  return (
    <tr>
      <th scope="row" className={`${headCell} max-w-56`}>
        <span className="flex items-center gap-2">
          <span aria-hidden className="size-2.5 shrink-0 rounded-full" style={{ background: `var(${run.colour})` }} />
          <bdi className="truncate" title={run.name}>
            {run.name}
          </bdi>
        </span>
      </th>
      <td className={cell}>
        <StateBadge state={run.session.state} />
      </td>
      <td className={right}>{number(run.session.policy_version)}</td>
      <td className={right}>{number(last?.step?.reward_mean)}</td>
      <td className={right}>
        {number(best?.reward)}
        {best && <span className="block text-xs text-muted">{best.place}</span>}
      </td>
      <td className={cell}>
        {last?.evaluations.map((one) => (
          <span key={one.name} className="block whitespace-nowrap">
            <bdi className="text-muted">{visible(one.name)}</bdi> {number(one.reward_mean)} <span className="text-xs text-muted">step {one.step}</span>
          </span>
        ))}
        {last?.evaluations.length === 0 && "–"}
      </td>
      <td className={right}>{number(last?.step?.entropy)}</td>
      <td className={right}>{number(last?.step?.kl_engine)}</td>
      <td className={right}>{number(last?.step?.completion_length_mean)}</td>
      <td className={right}>{number(totals?.tokens)}</td>
      <td className={right}>{took === null ? "–" : span(took)}</td>
    </tr>
  );
}
