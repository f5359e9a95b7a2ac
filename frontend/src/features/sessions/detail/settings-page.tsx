// What is set of a run and taken from it: notes, options, budget, public links, downloads.
import { useQuery } from "@tanstack/react-query";
import { lastMeasuresQuery } from "../../../api/metrics";
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { RunPage } from "../run-page";
import { NotesPanel } from "./annotate-session";
import { BatchDownload } from "./batch-download";
import { BudgetPanel } from "./budget-panel";
import { ConfigChangePanel } from "./config-change";
import { ConfigPanel } from "./config-panel";
import { EpisodesDownload } from "./episodes-download";
import { SharePanel } from "./share-panel";

export function SettingsPage() {
  return <RunPage title="Settings" of={Settings} />;
}

function Settings({ session }: { session: Session }) {
  const trains = session.kind === "episodes"; // others have no episodes to take home or to show
  return (
    <div className="grid items-start gap-4 xl:grid-cols-2">
      <div className="min-w-0 space-y-4">
        <NotesPanel session={session} />
        <ConfigPanel session={session} />
        {trains && <ConfigChangePanel session={session} />}
      </div>
      <div className="min-w-0 space-y-4">
        <BudgetPanel session={session} />
        {trains && <SharePanel session={session} />}
        {trains && !isExported && <EpisodesDownload session={session} />}
        {trains && <Batches session={session} />}
      </div>
    </div>
  );
}

function Batches({ session }: { session: Session }) {
  const { data } = useQuery(lastMeasuresQuery(session.id, !hasEnded(session)));
  return <BatchDownload session={session} lastStep={data?.step?.step} />;
}
