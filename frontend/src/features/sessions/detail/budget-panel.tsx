// What a session costs where that is known, and the limits that it has: what is used of each, and when it is reached.
import { useQuery } from "@tanstack/react-query";
import { hasEnded } from "../../../api/sessions";
import { spendingQuery } from "../../../api/spending";
import type { Session, Spending } from "../../../api/types";
import { money } from "../../../ui/format";
import { Meter } from "../../../ui/meter";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { limitRows } from "../spending";

// A list of terms has one box around a term and what is said of it.
const ROW = "flex flex-wrap justify-between gap-x-3 px-4 py-1.5";

export function BudgetPanel({ session }: { session: Session }) {
  const { data, error } = useQuery(spendingQuery(session.id, !hasEnded(session)));
  if (!data && !error) return null;
  if (data && !data.prices && data.limits.length === 0) return null;
  return (
    <Panel title="Budget">
      <ErrorNotice error={error} />
      {data && <SpendingRows spending={data} learns={session.kind !== "serving"} />}
    </Panel>
  );
}

/** Who `learns` has something to keep when it stops. */
export function SpendingRows({ spending, learns }: { spending: Spending; learns: boolean }) {
  const { cost, cost_per_hour: perHour, prices } = spending;
  const rows = limitRows(spending);
  if (!prices && rows.length === 0) return null;
  return (
    <>
      <dl className="divide-y divide-line tabular-nums">
        {prices && (
          <div className={ROW}>
            <dt className="text-muted">Cost so far</dt>
            <dd className="font-medium">{money(cost, prices.currency)}</dd>
            {perHour !== null && (
              <dd className="basis-full text-xs text-muted">
                {money(perHour, prices.currency)} an hour now
              </dd>
            )}
          </div>
        )}
        {rows.map((row) => (
          <div key={row.name} className={ROW}>
            <dt className="text-muted">{row.name}</dt>
            <dd>{row.used}</dd>
            <dd className="basis-full">
              <Meter label={row.name} share={row.share} />
            </dd>
            {row.forecast && <dd className="basis-full text-xs text-muted">{row.forecast}</dd>}
          </div>
        ))}
      </dl>
      {rows.length > 0 && (
        <p className="border-t border-line px-4 py-2 text-xs text-muted">
          {learns ? "At a limit it writes a model checkpoint and stops." : "At a limit it stops."}
        </p>
      )}
    </>
  );
}
