// How a run fares: what it was doing when, what it used of its machine, what went wrong, what its runtime wrote.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { HEALTH_ENTRIES, healthEventsQuery } from "../../../api/resources";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { restartsText } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { RuntimeLog } from "../detail/runtime-log";
import { RunPage } from "../run-page";
import { useOnEnd } from "../use-on-end";
import { phaseLanes } from "./phase-lanes";
import { PhaseGantt } from "./phase-gantt";
import { ResourcesPanel } from "./resources-panel";
import { TroublesPanel } from "./troubles-panel";
import { troublesOf } from "./troubles";

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
