// The alerts of this run that are not over, before everything else on its page. With the run's end all are over.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { sessionAlertsQuery } from "../../../api/alerts";
import { hasEnded } from "../../../api/sessions";
import type { Alert, Session } from "../../../api/types";
import { alertName } from "../../../ui/alert-name";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { visible } from "../../../ui/plain-text";

const REFRESH_MS = 15_000;

export function AlertsNotice({ session }: { session: Session }) {
  const isOver = hasEnded(session);
  const { data, error } = useQuery({
    ...sessionAlertsQuery(session.id),
    refetchInterval: REFRESH_MS,
    enabled: !isOver,
  });
  if (isOver) return null;
  return (
    <>
      <ErrorNotice error={error} />
      {data && data.items.length > 0 && <Standing alerts={data.items} />}
    </>
  );
}

function Standing({ alerts }: { alerts: Alert[] }) {
  return (
    <Notice
      tone="warn"
      title={alerts.length === 1 ? "An alert" : `${String(alerts.length)} alerts`}
    >
      <ul className="space-y-1">
        {alerts.map((alert) => (
          <li key={alert.id} className="wrap-anywhere">
            <span className="font-medium">{alertName(alert.rule)}:</span> {visible(alert.text)}{" "}
            {alert.hint && <span className="text-muted">{visible(alert.hint)} </span>}
            {alert.step !== null && (
              <Link
                to={`/sessions/${alert.session_id}/steps/${String(alert.step)}`}
                className="rounded text-accent underline underline-offset-2"
              >
                step {alert.step}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
