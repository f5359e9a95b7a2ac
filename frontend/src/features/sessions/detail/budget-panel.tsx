// The limits of a session that has any, and how much of each is used, where that is known.
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { number, span } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { limitText } from "../budget";

export function BudgetPanel({ session }: { session: Session }) {
  const { steps, wall_s: wallS, device_s: deviceS } = session.budget;
  if (steps === null && wallS === null && deviceS === null) return null;
  const rows = [
    { name: "Steps", used: number(session.policy_version), limit: steps === null ? null : number(steps) },
    { name: "Wall time", used: span(ageS(session)), limit: wallS === null ? null : limitText("wall_s", wallS) },
    { name: "Device time", used: null, limit: deviceS === null ? null : limitText("device_s", deviceS) },
  ];
  return (
    <Panel title="Budget">
      <dl className="divide-y divide-line tabular-nums">
        {rows
          .filter((row) => row.limit !== null)
          .map((row) => (
            <div key={row.name} className="flex justify-between gap-3 px-4 py-1.5">
              <dt className="text-muted">{row.name}</dt>
              <dd>{row.used === null ? `up to ${row.limit ?? ""}` : `${row.used} of ${row.limit ?? ""}`}</dd>
            </div>
          ))}
      </dl>
      <p className="border-t border-line px-4 py-2 text-xs text-muted">At a limit it writes a model checkpoint and stops.</p>
    </Panel>
  );
}

/** Up to now, or up to the last change of a session that has ended. */
function ageS(session: Session, now = Date.now()): number {
  const until = hasEnded(session) ? Date.parse(session.updated_at) : now;
  return Math.max(0, (until - Date.parse(session.created_at)) / 1000);
}
