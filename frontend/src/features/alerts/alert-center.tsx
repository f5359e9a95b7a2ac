// The alerts of the project's runs, behind a button at the top that counts those not read.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Popover } from "radix-ui";
import { Link } from "react-router";
import { alertsQuery, readAlerts } from "../../api/alerts";
import type { Alert } from "../../api/types";
import { alertName } from "../../ui/alert-name";
import { Button } from "../../ui/button";
import { ago, dateTime } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { visible, UserText } from "../../ui/plain-text";

const MOST = 100; // more the server does not count

export function AlertCenter() {
  const client = useQueryClient();
  const { data, error } = useQuery(alertsQuery);
  const read = useMutation({
    mutationFn: readAlerts,
    onSuccess: () => client.invalidateQueries({ queryKey: alertsQuery.queryKey }),
  });
  const unread = data?.unread ?? 0;
  const shown = unread >= MOST ? `${String(MOST)} or more` : String(unread);
  const newest = data?.items[0];
  return (
    <Popover.Root>
      <Popover.Trigger
        aria-label={unread > 0 ? `Alerts, ${shown} not read` : "Alerts"}
        className="flex h-8 items-center gap-1.5 rounded-md px-2 text-muted hover:bg-sunken hover:text-ink"
      >
        Alerts
        {unread > 0 && (
          <span
            aria-hidden
            className="rounded-full bg-warn-soft px-1.5 text-xs font-semibold text-warn tabular-nums"
          >
            {unread >= MOST ? `${String(MOST)}+` : unread}
          </span>
        )}
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          aria-label="Alerts"
          className="z-10 w-[min(26rem,calc(100vw-2rem))] rounded-lg border border-line bg-raised shadow-lg"
        >
          <div className="flex min-h-10 items-center justify-between gap-3 border-b border-line px-4 py-1.5">
            <h2 className="font-semibold">Alerts</h2>
            {newest && unread > 0 && (
              <Button
                look="quiet"
                className="h-7"
                disabled={read.isPending}
                onClick={() => {
                  read.mutate(newest.id);
                }}
              >
                Mark all as read
              </Button>
            )}
          </div>
          <ErrorNotice error={error ?? read.error} />
          {data?.items.length === 0 && (
            <p className="px-4 py-6 text-center text-muted">Nothing needs your attention.</p>
          )}
          <ul
            className="max-h-96 divide-y divide-line overflow-y-auto"
            tabIndex={0}
            aria-label="Newest alerts"
          >
            {data?.items.map((alert) => (
              <AlertEntry key={alert.id} alert={alert} />
            ))}
          </ul>
          <footer className="border-t border-line px-4 py-2 text-xs">
            <Popover.Close asChild>
              <Link to="/alert-rules" className="rounded text-accent hover:underline">
                Alert rules
              </Link>
            </Popover.Close>
          </footer>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function AlertEntry({ alert }: { alert: Alert }) {
  return (
    <li className={`px-4 py-2 text-xs ${alert.is_read ? "text-muted" : ""}`}>
      <p className="flex gap-2">
        <span className="font-semibold">{alertName(alert.rule)}</span>
        {!alert.is_read && <span className="text-warn">new</span>}
        <span className="ml-auto whitespace-nowrap text-muted" title={dateTime(alert.at)}>
          {ago(alert.at)}
        </span>
      </p>
      <p className="wrap-anywhere">{visible(alert.text)}</p>
      {alert.hint && <p className="wrap-anywhere text-muted">{visible(alert.hint)}</p>}
      <Popover.Close asChild>
        <Link
          to={`/sessions/${alert.session_id}${alert.step === null ? "" : `/steps/${String(alert.step)}`}`}
          className="block truncate rounded text-accent hover:underline"
        >
          <UserText text={alert.session_name} />
          {alert.step !== null && `, step ${String(alert.step)}`}
        </Link>
      </Popover.Close>
    </li>
  );
}
