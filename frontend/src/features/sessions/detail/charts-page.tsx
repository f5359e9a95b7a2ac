// The curves of a run, live.
import type { Session } from "../../../api/types";
import { RunPage } from "../run-page";
import { ChartsPanel } from "./charts-panel";
import { useLiveRun } from "./use-live-run";

export function ChartsPage() {
  return <RunPage title="Charts" of={Charts} />;
}

function Charts({ session }: { session: Session }) {
  const { record, isLoaded } = useLiveRun(session.id);
  return <ChartsPanel session={session} record={record} isLoading={!isLoaded} />;
}
