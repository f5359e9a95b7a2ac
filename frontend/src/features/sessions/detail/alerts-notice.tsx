// The alerts of this run that are not over, before everything else on its page.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { sessionAlertsQuery } from "../../../api/alerts";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { alertName } from "../../../ui/alert-name";
import { Notice } from "../../../ui/notice";
import { visible } from "../../../ui/plain-text";

const REFRESH_MS = 15_000;

export function AlertsNotice({ session }: { session: Session }) {
  const { data } = useQuery({ ...sessionAlertsQuery(session.id), refetchInterval: hasEnded(session) ? false : REFRESH_MS });
  const standing = data?.items.filter((alert) => alert.over_at === null) ?? [];
  if (standing.length === 0) return null;
  return (
    <Notice tone="warn" title={standing.length === 1 ? "An alert" : `${String(standing.length)} alerts`}>
      <ul className="space-y-1">
        {standing.map((alert) => (
          <li key={alert.id} className="wrap-anywhere">
            <span className="font-medium">{alertName(alert.rule)}:</span> {visible(alert.text)}{" "}
            {alert.step !== null && (
              <Link to={`/sessions/${session.id}/steps/${String(alert.step)}`} className="rounded text-accent hover:underline">
                step {alert.step}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
