// How a run fares: what it was doing when, what it used of its machine, what went wrong, what its runtime wrote.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { useParams } from "react-router";
import { HEALTH_ENTRIES, healthEventsQuery } from "../../../api/resources";
import { hasEnded, sessionQuery } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { restartsText } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { useTitle } from "../../../ui/use-title";
import { RuntimeLog } from "../detail/runtime-log";
import { SessionCrumb } from "../session-crumb";
import { StateBadge } from "../state-badge";
import { useOnEnd } from "../use-on-end";
import { phaseLanes } from "./phase-lanes";
import { PhaseGantt } from "./phase-gantt";
import { ResourcesPanel } from "./resources-panel";
import { TroublesPanel } from "./troubles-panel";
import { restartsOf, troublesOf } from "./troubles";

export function HealthPage() {
  const { id = "" } = useParams();
  const { data: session, error } = useQuery(sessionQuery(id));
  useTitle(session ? `Health of ${session.name || session.id}` : "Health");
  return (
    <>
      <SessionCrumb session={session} id={id} page="Health" />
      <div className="mb-4 flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold tracking-tight">Health</h1>
        {session && <StateBadge state={session.state} />}
        {session && !hasEnded(session) && <span className="text-muted">{session.phase}</span>}
      </div>
      <ErrorNotice error={error} />
      {error && <ButtonLink to="/sessions">All sessions</ButtonLink>}
      {!session && !error && <Loading />}
      {session && <Health session={session} />}
    </>
  );
}

function Health({ session }: { session: Session }) {
  const client = useQueryClient();
  const isLive = !hasEnded(session);
  const { data, error, dataUpdatedAt } = useQuery(healthEventsQuery(session.id, isLive));
  const entries = useMemo(() => data?.items ?? [], [data]);
  const lanes = useMemo(() => phaseLanes(entries, isLive ? dataUpdatedAt : null), [entries, isLive, dataUpdatedAt]);
  const troubles = useMemo(() => troublesOf(entries), [entries]);
  const restarts = restartsOf(entries);
  useOnEnd(isLive, () => {
    for (const part of ["health", "resources", "logs"]) void client.invalidateQueries({ queryKey: ["session", session.id, part] });
  });
  const note = entries.length === HEALTH_ENTRIES ? `the last ${String(HEALTH_ENTRIES)} entries of the record` : restartsText(restarts);
  return (
    <div className="space-y-4">
      <ErrorNotice error={error} />
      <Panel title="Phases" actions={<span className="text-xs text-muted">{data ? note : ""}</span>}>
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
