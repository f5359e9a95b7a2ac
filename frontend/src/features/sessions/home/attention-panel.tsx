// What a person should look at first: an invitation, alerts that are not over, and runs that failed in the last days.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { accountQuery } from "../../../api/account";
import { standingAlertsQuery } from "../../../api/alerts";
import type { Alert, Session } from "../../../api/types";
import { alertName } from "../../../ui/alert-name";
import { Badge } from "../../../ui/badge";
import { ago, dateTime } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { causeOf } from "../detail/failure-notice";

const SHOWN = 8;
const DAYS = 7;

export interface Trouble {
  key: string;
  at: string;
  what: string;
  tone: "bad" | "warn";
  text: string;
  run: string;
  to: string;
}

/** Both kinds, the newest first; failures older than a week are history. */
export function troublesOf(
  alerts: readonly Alert[],
  failed: readonly Session[],
  now = Date.now(),
): Trouble[] {
  const recent = failed.filter(({ updated_at: at }) => now - Date.parse(at) < DAYS * 86_400_000);
  return [
    ...alerts
      .filter(({ session_id: id }) => !recent.some((session) => session.id === id))
      .map((alert): Trouble => ({
        key: String(alert.id),
        at: alert.at,
        what: alertName(alert.rule),
        tone: "warn",
        text: alert.text,
        run: alert.session_name || alert.session_id,
        to: `/sessions/${alert.session_id}${alert.step === null ? "" : `/steps/${String(alert.step)}`}`,
      })),
    ...recent.map((session): Trouble => ({
      key: session.id,
      at: session.updated_at,
      what: "Failed",
      tone: "bad",
      text: session.failure ? failureText(session.failure) : "",
      run: session.name || session.id,
      to: `/sessions/${session.id}`,
    })),
  ].sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
}

/** The cause first, then what to do. */
function failureText(failure: NonNullable<Session["failure"]>): string {
  const cause = causeOf(failure).title;
  return [/[.!?]$/.test(cause) ? cause : `${cause}.`, failure.hint].filter(Boolean).join(" ");
}

interface AttentionPanelProps {
  failed: readonly Session[] | undefined;
  /** Whether the failed runs could not be read, which the page reports. */
  isLost: boolean;
}

export function AttentionPanel({ failed, isLost }: AttentionPanelProps) {
  const { data, error } = useQuery(standingAlertsQuery);
  if (error) return <ErrorNotice error={error} />;
  const troubles = data && (failed || isLost) ? troublesOf(data.items, failed ?? []) : null;
  return (
    <Panel title="Needs attention" actions={<MoreLink to="/alert-rules">Alert rules</MoreLink>}>
      {!troubles && <Loading />}
      {troubles?.length === 0 && <p className="p-4 text-muted">Nothing needs your attention.</p>}
      <ul className="divide-y divide-line">
        {troubles?.slice(0, SHOWN).map(({ key, at, what, tone, text, run, to }) => (
          <li key={key} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2">
            <Badge tone={tone}>{what}</Badge>
            <Link
              to={to}
              className="max-w-64 min-w-0 truncate rounded font-medium hover:text-accent hover:underline"
            >
              <UserText text={run} />
            </Link>
            <span className="min-w-0 line-clamp-3 flex-1 basis-48 text-muted wrap-anywhere">
              {visible(text)}
            </span>
            <span className="text-xs whitespace-nowrap text-muted" title={dateTime(at)}>
              {ago(at)}
            </span>
          </li>
        ))}
      </ul>
      {troubles && troubles.length > SHOWN && (
        <p className="border-t border-line px-4 py-2 text-xs text-muted">
          and {troubles.length - SHOWN} more, under Alerts and in the{" "}
          <MoreLink to="/sessions?state=failed">list of failed runs</MoreLink>
        </p>
      )}
    </Panel>
  );
}

/** At the head of a panel, to all of what it shows some of. */
export function MoreLink({ to, children }: { to: string; children: ReactNode }) {
  return (
    <Link to={to} className="rounded text-xs text-accent underline underline-offset-2">
      {children}
    </Link>
  );
}

/** Who signs up because of an invitation lands on a Home where nothing of that project is. */
export function Invited() {
  const { data: account } = useQuery(accountQuery);
  const [invitation] = account?.invitations ?? [];
  if (!invitation) return null;
  return (
    <div className="mb-4">
      <Notice
        title={
          <>
            You are invited to the project <UserText text={invitation.project_name} /> as{" "}
            {invitation.role}.
          </>
        }
      >
        <Link to="/account" className="rounded text-accent underline underline-offset-2">
          Accept or decline on your account page
        </Link>
      </Notice>
    </div>
  );
}
