// One session, live: what it is doing, how it learns, where its episodes went, what it does now.
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { Navigate, useLocation, useParams } from "react-router";
import { isExported } from "../../../api/offline";
import { hasEnded, sessionQuery } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import type { BudgetEnd, SessionRecord } from "../../../live/record";
import { PartBoundary } from "../../../ui/boundary";
import { LoopSnippet } from "../../../ui/loop-snippet";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { useErrorToast } from "../../../ui/toasts";
import { useTitle } from "../../../ui/use-title";
import { AccountingPanel } from "./accounting-panel";
import { hasNow, NowPanel } from "./now-panel";
import { AlertsNotice } from "./alerts-notice";
import { budgetEndText } from "../budget";
import { FailureNotice } from "./failure-notice";
import { QueuedNotice } from "./queued-notice";
import { QueuePanel } from "./queue-panel";
import { RecordPanel } from "./record-panel";
import { RewardPanel } from "./reward-panel";
import { SessionFacts } from "./session-facts";
import { ServedSession } from "./served-session";
import { TinkerSession } from "./tinker-session";
import { SessionHeader } from "./session-header";
import { useLiveRun } from "./use-live-run";
import { hasChartParts } from "./view-parts";

export function SessionPage() {
  const { id = "" } = useParams();
  const { data: session, error } = useQuery(sessionQuery(id));
  useTitle(session ? session.name || session.id : "Session");
  useErrorToast("session", session ? error : null); // what stands here stays, when the server is away for a moment
  const { search } = useLocation();
  // Where the charts were: a link of before with their parts leads to their own page.
  if (hasChartParts(new URLSearchParams(search)))
    return <Navigate to={`/sessions/${id}/charts${search}`} replace />;
  if (!session) return error ? <ErrorNotice error={error} /> : <Loading />;
  return <LiveSession key={id} session={session} />;
}

function LiveSession({ session }: { session: Session }) {
  const id = session.id;
  // The head is there at once; what stands below is rendered piece by piece, and blocks neither its paint nor a click.
  const isBelowDue = useDeferredValue(true, false);
  const { record, isLoaded, link, heardAt } = useLiveRun(id);
  const last = record.steps[record.steps.length - 1];
  const head = (
    <>
      <SessionHeader session={session} link={link} heardAt={heardAt} />
      <Attention session={session} budgetEnd={record.budgetEnd} />
      <AlertsNotice session={session} />
    </>
  );
  if (session.kind !== "episodes") {
    const Kind = session.kind === "serving" ? ServedSession : TinkerSession;
    return (
      <div className="space-y-4">
        {head}
        <Kind session={session} record={record} />
      </div>
    );
  }
  return (
    <div className="space-y-4">
      {head}
      <SessionFacts session={session} last={last} />
      {isBelowDue && <Below session={session} record={record} isLoaded={isLoaded} />}
    </div>
  );
}

function Below({
  session,
  record,
  isLoaded,
}: {
  session: Session;
  record: SessionRecord;
  isLoaded: boolean;
}) {
  return (
    <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,2fr)_minmax(20rem,1fr)]">
      <div className="min-w-0 space-y-4">
        {session.state === "ready" &&
          !isExported &&
          record.steps.length === 0 &&
          session.accounting.begun === 0 && <WaitingForEpisodes session={session} />}
        <PartBoundary name="Learning">
          <RewardPanel session={session} record={record} isLoading={!isLoaded} />
        </PartBoundary>
        <PartBoundary name="Events">
          <RecordPanel
            sessionId={session.id}
            record={record}
            isReady={session.state === "ready" && !isExported}
          />
        </PartBoundary>
      </div>
      <div className="min-w-0 space-y-4">
        <PartBoundary name="Now">
          {hasNow(session) && <NowPanel session={session} record={record} />}
        </PartBoundary>
        <PartBoundary name="Episodes">
          <AccountingPanel session={session} />
        </PartBoundary>
        <PartBoundary name="Queue">
          <QueuePanel session={session} />
        </PartBoundary>
      </div>
    </div>
  );
}

const WOKEN: Record<Session["kind"], string> = {
  episodes: "The next episode wakes it where it left off",
  tinker: "The next request of its client wakes it where it left off",
  serving: "The next call starts it again",
};

/** What the user should know first, when anything is. */
function Attention({ session, budgetEnd }: { session: Session; budgetEnd: BudgetEnd | null }) {
  if (session.failure) {
    return <FailureNotice failure={session.failure} />;
  }
  if (budgetEnd) {
    return (
      <Notice
        tone={hasEnded(session) ? "info" : "warn"}
        title={hasEnded(session) ? "Ended by its budget" : "Its budget is used up: it is ending"}
      >
        {budgetEndText(budgetEnd)}
      </Notice>
    );
  }
  if (isExported) return null; // what follows says how it goes on
  if (session.state === "queued" && session.queue_position !== null) {
    return <QueuedNotice session={session} />;
  }
  if (session.state === "suspended") {
    return <Notice title="Suspended">{WOKEN[session.kind]}, or “Resume”.</Notice>;
  }
  return null;
}

function WaitingForEpisodes({ session }: { session: Session }) {
  return (
    <Panel title="Ready for episodes">
      <div className="space-y-3 p-4">
        <p className="text-muted">
          The engine is up and nothing has been asked of it yet. Run your loop with a key of this
          project:
        </p>
        <LoopSnippet
          secret={null}
          target={{ sessionId: session.id, grpoN: session.config.grpo_n }}
        />
      </div>
    </Panel>
  );
}
