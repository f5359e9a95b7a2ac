// How a run fares: what it was doing when, what it used of its machine, what went wrong, what its runtime wrote.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { HEALTH_ENTRIES, healthEventsQuery, resourcesQuery } from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { Chart } from "../../../ui/chart";
import { CutText } from "../../../ui/cut-text";
import { restartsText, dateTime, timeOfDay } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { fetchPlots } from "../../../ui/use-plot";
import { RuntimeLog } from "../detail/runtime-log";
import { RunPage } from "../run-page";
import { useOnEnd } from "../use-on-end";
import { PhaseGantt } from "./phase-gantt";
import { phaseLanes } from "./phase-lanes";
import { resourceCharts } from "./resource-charts";
import { troublesOf, type Trouble } from "./troubles";

export function HealthPage() {
  return <RunPage title="Health" of={Health} />;
}

function Health({ session }: { session: Session }) {
  const client = useQueryClient();
  const isLive = !hasEnded(session);
  const { data, error, dataUpdatedAt } = useQuery(healthEventsQuery(session.id, isLive));
  const entries = useMemo(() => data?.items ?? [], [data]);
  const lanes = useMemo(
    () => phaseLanes(entries, isLive ? dataUpdatedAt : null),
    [entries, isLive, dataUpdatedAt],
  );
  const troubles = useMemo(() => troublesOf(entries), [entries]);
  useOnEnd(isLive, () => {
    for (const part of ["health", "resources", "logs"])
      void client.invalidateQueries({ queryKey: ["session", session.id, part] });
  });
  const note = `${restartsText(session.restarts)}${entries.length === HEALTH_ENTRIES ? `; the last ${String(HEALTH_ENTRIES)} entries of the record` : ""}`;
  return (
    <div className="space-y-4">
      <ErrorNotice error={error} />
      <Panel
        title="Phases"
        actions={<span className="text-xs text-muted">{data ? note : ""}</span>}
      >
        {data ? <PhaseGantt {...lanes} /> : !error && <Loading />}
      </Panel>
      <ResourcesPanel id={session.id} isLive={isLive} />
      {data && <TroublesPanel troubles={troubles} />}
      <Panel title="Runtime log">
        <RuntimeLog sessionId={session.id} />
      </Panel>
    </div>
  );
}

fetchPlots();

/** What the run’s runtimes used of their machines, over the time since it was created. */
function ResourcesPanel({ id, isLive }: { id: string; isLive: boolean }) {
  const { data, error } = useQuery(resourcesQuery(id, isLive));
  const charts = useMemo(() => (data ? resourceCharts(data) : []), [data]);
  const gpus = [...new Set(data?.latest?.gpus.map((gpu) => gpu.name))].join(", ");
  return (
    <Panel
      title="Machine"
      actions={
        <span className="truncate text-xs text-muted">
          {gpus || "Drag to zoom, double-click to reset"}
        </span>
      }
    >
      <ErrorNotice error={error} />
      {!data && !error && <Loading />}
      {data && charts.length === 0 && (
        <p className="p-4 text-muted">
          No sample: they come every 10 s while the run has a runtime.
        </p>
      )}
      <div className="grid sm:grid-cols-2">
        {data &&
          charts.map((chart) => (
            <Chart
              key={chart.title}
              {...chart}
              x={data.x}
              axis="time"
              height={130}
              placeholder="No sample yet"
            />
          ))}
      </div>
    </Panel>
  );
}

/** Of all threads, in most cases. */
const STACKS_CHARACTERS = 50_000;

function TroublesPanel({ troubles }: { troubles: readonly Trouble[] }) {
  return (
    <Panel title="Restarts and faults">
      {troubles.length === 0 && <p className="p-4 text-muted">None.</p>}
      <ol className="max-h-96 divide-y divide-line overflow-y-auto">
        {troubles.map((one) => (
          <li key={one.cursor} className="px-4 py-2">
            <p className="flex flex-wrap items-baseline gap-x-3">
              <time
                dateTime={one.at}
                title={dateTime(one.at)}
                className="text-xs text-muted tabular-nums"
              >
                {timeOfDay(one.at)}
              </time>
              <span className="font-medium">{one.title}</span>
              <span className="min-w-0 text-muted wrap-anywhere">{visible(one.text)}</span>
            </p>
            {one.trace && (
              <details className="mt-1 text-xs">
                <summary className="cursor-pointer text-muted">Stacks</summary>
                <pre tabIndex={0} className="mt-1 max-h-96 overflow-auto font-mono">
                  <CutText text={one.trace} most={STACKS_CHARACTERS} />
                </pre>
              </details>
            )}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
