// What a session costs where that is known, and the limits that it has: what is used of each, and when it is reached.
import { useQuery } from "@tanstack/react-query";
import { hasEnded } from "../../../api/sessions";
import { spendingQuery } from "../../../api/usage";
import type { Spending, Session } from "../../../api/types";
import { money, number, span } from "../../../ui/format";
import { Meter } from "../../../ui/meter";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";

interface LimitRow {
  name: string;
  used: string;
  /** Of what is allowed. */
  share: number;
  /** Empty where nothing can be foretold. */
  forecast: string;
}

const NAMES: Record<string, string> = {
  steps: "Steps",
  wall_s: "Wall time",
  device_s: "Device time",
  spend_cap_s: "Cap of its key",
  hours: "Runtime, limit of this server",
};

export function limitRows({ limits, prices }: Spending): LimitRow[] {
  return limits.map(({ limit, allowed, used, left_s: left, cost_at_limit: cost }) => {
    const inUnits = (value: number) =>
      limit === "steps" ? number(value) : span(limit === "hours" ? value * 3600 : value);
    const costs = cost !== null && prices ? `, having cost ${money(cost, prices.currency)}` : "";
    const when = limit === "wall_s" ? "reached in" : "reached after another";
    return {
      name: NAMES[limit] ?? limit,
      share: allowed === 0 ? 1 : used / allowed,
      used: `${inUnits(used)} of ${inUnits(allowed)}`,
      forecast:
        left === null
          ? ""
          : `${when} ${span(left)}${limit === "wall_s" ? "" : " at the pace so far"}${costs}`,
    };
  });
}

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
