// Where a person lands: what needs them, what runs and how it learns, what waits, what ended last, what the week used.
import {
  useInfiniteQuery,
  usePrefetchInfiniteQuery,
  usePrefetchQuery,
  useQuery,
} from "@tanstack/react-query";
import { Link } from "react-router";
import { standingAlertsQuery } from "../../../api/alerts";
import { rewardsQuery } from "../../../api/metrics";
import { servingQuery } from "../../../api/serving";
import { queueQuery, sessionsQuery } from "../../../api/sessions";
import type { Page, Session, SessionState } from "../../../api/types";
import { usageQuery } from "../../../api/usage";
import { ButtonLink } from "../../../ui/button";
import { dateTime, money, number, span, waited } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { PageHeader, Panel } from "../../../ui/panel";
import { UserText } from "../../../ui/plain-text";
import { Word } from "../../../ui/word";
import { NoSessions } from "../no-sessions";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../../../use-may-write";
import { AttentionPanel, Invited, MoreLink } from "./attention-panel";
import { sparkPoints } from "./sparkline";

const LIVE: SessionState[] = ["provisioning", "loading", "ready", "suspended", "stopping"];
const SHOWN_LIVE = 12;
const SHOWN = 5;
const WIDTH = 240;
const HEIGHT = 48;

export function HomePage() {
  const live = useInfiniteQuery(
    sessionsQuery({ states: LIVE, name: "", kinds: ["episodes", "tinker"] }),
  );
  const served = useQuery(servingQuery);
  const queued = useQuery(queueQuery);
  const failed = useInfiniteQuery(sessionsQuery({ states: ["failed"], name: "" }));
  const newest = useInfiniteQuery(sessionsQuery({ states: [], name: "", sort: "newest" }));
  // Of panels that come once it is known whether there is any run.
  usePrefetchQuery(standingAlertsQuery);
  usePrefetchInfiniteQuery(usageQuery);
  const mayWrite = useMayWrite();
  const running = live.data?.pages[0]?.items ?? [];
  return (
    <>
      <PageHeader title="Home">
        {mayWrite && (
          <ButtonLink to="/sessions/new" look="primary">
            New session
          </ButtonLink>
        )}
      </PageHeader>
      <Invited />
      <ErrorNotice
        error={live.error ?? served.error ?? queued.error ?? failed.error ?? newest.error}
      />
      {newest.isPending ? (
        <Loading />
      ) : newest.data?.pages[0]?.items.length === 0 ? (
        <Panel title="First steps">
          <NoSessions />
        </Panel>
      ) : (
        <div className="space-y-4">
          <AttentionPanel failed={failed.data?.pages[0]?.items} isLost={failed.error !== null} />
          <Panel title="Live runs">
            {live.isPending && <Loading />}
            {live.data && running.length === 0 && (
              <p className="p-4 text-muted">
                Nothing runs now.
                {mayWrite && (
                  <>
                    {" "}
                    <Link
                      to="/sessions/new"
                      className="rounded text-accent underline underline-offset-2"
                    >
                      Start a run
                    </Link>
                  </>
                )}
              </p>
            )}
            <ul className="cells grid-cols-1 sm:grid-cols-2 lg:grid-cols-3">
              {running.slice(0, SHOWN_LIVE).map((session) => (
                <LiveRun key={session.id} session={session} />
              ))}
            </ul>
            {running.length > SHOWN_LIVE && (
              <p className="border-t border-line px-4 py-2 text-xs text-muted">
                The newest {SHOWN_LIVE}; the others are in the{" "}
                <Link to="/sessions" className="rounded text-accent underline underline-offset-2">
                  list of all sessions
                </Link>
                .
              </p>
            )}
          </Panel>
          <div className="grid grid-cols-1 items-start gap-4 sm:grid-cols-2 xl:grid-cols-4">
            <Panel title="Newest runs" actions={<MoreLink to="/sessions">All</MoreLink>}>
              <Lines
                page={newest.data?.pages[0]}
                error={newest.error}
                none="None yet."
                text={(one) => one.state}
              />
            </Panel>
            <Panel title="Queue" actions={<MoreLink to="/capacity">Capacity</MoreLink>}>
              <Lines
                page={queued.data}
                error={queued.error}
                none="Nothing waits."
                text={queueText}
              />
            </Panel>
            <Panel title="Served models" actions={<MoreLink to="/serving">Serving</MoreLink>}>
              <Lines
                page={served.data}
                error={served.error}
                none="No model is served."
                text={(one) => one.state}
              />
            </Panel>
            <Week />
          </div>
        </div>
      )}
    </>
  );
}

/** Since when one waits that ran before is not known here. */
function queueText(session: Session): string {
  const { queue_position: position, created_at: at, restarts, policy_version: version } = session;
  const isNew = restarts === 0 && version === 0;
  return [
    position === null ? "" : `position ${number(position)}`,
    isNew ? `waits ${waited(at)}` : "",
  ]
    .filter(Boolean)
    .join(", ");
}

function LiveRun({ session }: { session: Session }) {
  const learns = session.kind === "episodes"; // a Tinker client has losses, on the run's page
  const { data } = useQuery({
    ...rewardsQuery(session.id, WIDTH, session.state !== "suspended"),
    enabled: learns,
  });
  const points = sparkPoints(data?.columns.reward_mean?.last ?? [], WIDTH, HEIGHT);
  return (
    <li className="min-w-0 bg-surface p-4">
      <p className="flex items-center gap-2">
        <Link
          to={`/sessions/${session.id}`}
          className="min-w-0 truncate rounded font-medium hover:text-accent hover:underline"
        >
          <UserText text={session.name || session.id} />
        </Link>
        <span className="ml-auto">
          <StateBadge state={session.state} />
        </span>
      </p>
      {learns && (
        <svg
          role="img"
          aria-label={points ? `Reward, now ${number(session.reward_mean)}` : "No step yet"}
          viewBox={`0 -2 ${String(WIDTH)} ${String(HEIGHT + 4)}`}
          preserveAspectRatio="none"
          className="mt-2 h-12 w-full"
        >
          <polyline
            points={points}
            fill="none"
            className="stroke-accent"
            strokeWidth="1.75"
            vectorEffect="non-scaling-stroke"
          />
        </svg>
      )}
      <p className="mt-1 flex justify-between gap-3 text-xs text-muted tabular-nums">
        <span className="truncate">{session.phase || session.base_model}</span>
        <span className="shrink-0">
          {learns
            ? `${number(session.policy_version)} steps · reward ${number(session.reward_mean)}`
            : `Tinker client · ${number(session.policy_version)} optimizer steps`}
        </span>
      </p>
    </li>
  );
}

interface LinesProps {
  page: Page<Session> | undefined;
  /** Stands over the page; without it what is not there yet is on the way. */
  error: Error | null;
  none: string;
  text: (session: Session) => string;
}

function Lines({ page, error, none, text }: LinesProps) {
  if (!page) return error ? <p className="p-4 text-muted">–</p> : <Loading />;
  const sessions = page.items;
  if (sessions.length === 0) return <p className="p-4 text-muted">{none}</p>;
  return (
    <ul className="divide-y divide-line">
      {sessions.slice(0, SHOWN).map((session) => (
        <li key={session.id} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2">
          <Link
            to={`/sessions/${session.id}`}
            className="max-w-full min-w-0 truncate rounded hover:text-accent hover:underline"
          >
            <UserText text={session.name || session.id} />
          </Link>
          <span className="ml-auto text-xs text-muted" title={dateTime(session.created_at)}>
            {text(session)}
          </span>
        </li>
      ))}
      {sessions.length > SHOWN && (
        <li className="px-4 py-2 text-xs text-muted">
          and {page.next_cursor ? "more" : `${String(sessions.length - SHOWN)} more`}
        </li>
      )}
    </ul>
  );
}

function Week() {
  const { data, error } = useInfiniteQuery(usageQuery);
  const newest = data?.pages[0];
  const week = newest?.last_7_days;
  return (
    <Panel title="Last 7 days" actions={<MoreLink to="/usage">Usage</MoreLink>}>
      <ErrorNotice error={error} />
      <dl className="divide-y divide-line tabular-nums">
        {week &&
          [
            ["Runtime", span(week.runtime_s)],
            ["GPU time", span(week.gpu_s)],
            ...(newest?.prices ? [["Cost", money(week.cost, newest.prices.currency)]] : []),
          ].map(([name, value]) => (
            <div key={name} className="flex justify-between px-4 py-2">
              <dt className="text-muted">
                <Word text={name ?? ""} />
              </dt>
              <dd className="font-medium">{value}</dd>
            </div>
          ))}
      </dl>
    </Panel>
  );
}
