// The project at a glance: what runs and how it learns, what waits, what failed, what the week used.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { totalsQuery } from "../../../api/metrics";
import { sessionsQuery } from "../../../api/sessions";
import type { Session, SessionState } from "../../../api/types";
import { usageQuery } from "../../../api/usage";
import { ButtonLink } from "../../../ui/button";
import { ago, dateTime, number, span } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { PageHeader, Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../use-may-write";
import { sparkPoints } from "./sparkline";

const LIVE: SessionState[] = ["provisioning", "loading", "ready", "suspended", "stopping"];
const SHOWN_LIVE = 12;
const SHOWN = 5;
const WIDTH = 240;
const HEIGHT = 48;

export function HomePage() {
  const live = useInfiniteQuery(sessionsQuery({ states: LIVE, name: "" }));
  const queued = useInfiniteQuery(sessionsQuery({ states: ["queued"], name: "" }));
  const failed = useInfiniteQuery(sessionsQuery({ states: ["failed"], name: "" }));
  const mayWrite = useMayWrite();
  const running = live.data?.pages[0]?.items ?? [];
  return (
    <>
      <PageHeader title="Home">{mayWrite && <ButtonLink to="/sessions/new">New session</ButtonLink>}</PageHeader>
      <ErrorNotice error={live.error ?? queued.error ?? failed.error} />
      <div className="space-y-4">
        <Panel title="Live runs">
          {live.isPending && <Loading />}
          {live.data && running.length === 0 && <p className="p-4 text-muted">Nothing runs now.</p>}
          <ul className="grid gap-px bg-line sm:grid-cols-2 lg:grid-cols-3">
            {running.slice(0, SHOWN_LIVE).map((session) => (
              <LiveRun key={session.id} session={session} />
            ))}
          </ul>
          {running.length > SHOWN_LIVE && (
            <p className="border-t border-line px-4 py-2 text-xs text-muted">The newest {SHOWN_LIVE}; the others are in the list of all.</p>
          )}
        </Panel>
        <div className="grid items-start gap-4 lg:grid-cols-3">
          <Panel title="Queue">
            <Lines sessions={queued.data?.pages[0]?.items} none="Nothing waits." text={(one) => `${one.queue_position === null ? "" : `position ${number(one.queue_position)}, `}since ${ago(one.created_at)}`} />
          </Panel>
          <Panel title="Failed">
            <Lines sessions={failed.data?.pages[0]?.items} none="Nothing failed." text={(one) => one.failure?.code.replaceAll("_", " ") ?? ""} />
          </Panel>
          <Week />
        </div>
      </div>
    </>
  );
}

function LiveRun({ session }: { session: Session }) {
  const { data } = useQuery(totalsQuery(session.id, true));
  const points = sparkPoints(data?.rewards.columns.reward_mean?.mean ?? [], WIDTH, HEIGHT);
  return (
    <li className="min-w-0 bg-surface p-4">
      <p className="flex items-center gap-2">
        <Link to={`/sessions/${session.id}`} className="min-w-0 truncate rounded font-medium hover:text-accent hover:underline">
          <bdi>{visible(session.name || session.id)}</bdi>
        </Link>
        <span className="ml-auto">
          <StateBadge state={session.state} />
        </span>
      </p>
      <svg role="img" aria-label={points ? `Reward, now ${number(session.reward_mean)}` : "No step yet"} viewBox={`0 -2 ${String(WIDTH)} ${String(HEIGHT + 4)}`} preserveAspectRatio="none" className="mt-2 h-12 w-full">
        <polyline points={points} fill="none" className="stroke-accent" strokeWidth="1.75" vectorEffect="non-scaling-stroke" />
      </svg>
      <p className="mt-1 flex justify-between gap-3 text-xs text-muted tabular-nums">
        <span className="truncate">{session.phase || session.base_model}</span>
        <span className="shrink-0">
          {number(session.policy_version)} steps · reward {number(session.reward_mean)}
        </span>
      </p>
    </li>
  );
}

function Lines({ sessions, none, text }: { sessions: Session[] | undefined; none: string; text: (session: Session) => string }) {
  if (!sessions) return <Loading />;
  if (sessions.length === 0) return <p className="p-4 text-muted">{none}</p>;
  return (
    <ul className="divide-y divide-line">
      {sessions.slice(0, SHOWN).map((session) => (
        <li key={session.id} className="flex items-baseline gap-3 px-4 py-2">
          <Link to={`/sessions/${session.id}`} className="min-w-0 truncate rounded hover:text-accent hover:underline">
            <bdi>{visible(session.name || session.id)}</bdi>
          </Link>
          <span className="ml-auto shrink-0 text-xs text-muted" title={dateTime(session.created_at)}>
            {text(session)}
          </span>
        </li>
      ))}
      {sessions.length > SHOWN && <li className="px-4 py-2 text-xs text-muted">and {sessions.length === 50 ? "more" : `${String(sessions.length - SHOWN)} more`}</li>}
    </ul>
  );
}

function Week() {
  const { data, error } = useInfiniteQuery(usageQuery);
  const week = data?.pages[0]?.last_7_days;
  return (
    <Panel title="Last 7 days">
      <ErrorNotice error={error} />
      <dl className="divide-y divide-line tabular-nums">
        {week &&
          [
            ["Runtime", span(week.runtime_s)],
            ["GPU time", span(week.gpu_s)],
          ].map(([name, value]) => (
            <div key={name} className="flex justify-between px-4 py-2">
              <dt className="text-muted">{name}</dt>
              <dd className="font-medium">{value}</dd>
            </div>
          ))}
      </dl>
    </Panel>
  );
}
