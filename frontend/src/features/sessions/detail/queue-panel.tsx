// How far the queue of tasks is, who plays it, and what failed in it. Hidden where nothing was ever queued.
import { useQuery } from "@tanstack/react-query";
import { isUsed, tasksQuery } from "../../../api/tasks";
import type { Session } from "../../../api/types";
import { Badge } from "../../../ui/badge";
import { number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";

export function QueuePanel({ session }: { session: Session }) {
  const { data: counts } = useQuery(tasksQuery(session));
  if (!counts || !isUsed(counts)) return null;
  const rows = [
    { name: "waiting", value: counts.waiting },
    { name: "running", value: counts.running },
    { name: "done", value: counts.done },
    { name: "failed", value: counts.failed },
  ];
  const stuck = counts.workers === 0 && counts.waiting > 0;
  const judge = counts.waiting_judged === counts.waiting ? " --judge my_judge:rank" : "";
  return (
    <Panel title="Queue of tasks" actions={<Badge tone={stuck ? "warn" : counts.running > 0 ? "busy" : "neutral"}>{counts.workers === 1 ? "1 worker" : `${number(counts.workers)} workers`}</Badge>}>
      <dl className="tabular-nums">
        {rows.map((row) => (
          <div key={row.name} className={`flex justify-between gap-3 px-4 py-1 ${row.value === 0 ? "text-muted" : ""}`}>
            <dt>{row.name}</dt>
            <dd>{number(row.value)}</dd>
          </div>
        ))}
      </dl>
      {stuck && (
        <p className="border-t border-line px-4 py-2 text-xs text-muted">
          Start one: <code className="break-all">{`tinkerscript worker my_agent:run --session ${session.id}${judge}`}</code>
        </p>
      )}
      {counts.failures.length > 0 && (
        <ul className="border-t border-line px-4 py-2 text-xs" aria-label="Attempts that failed">
          {counts.failures.map((failure, at) => (
            <li key={at} className="break-words">
              <span className="font-mono">{failure.name}</span>: {failure.error}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
