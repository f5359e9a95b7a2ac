// How far the queue of tasks is, who plays it, and what failed in it. Hidden where nothing was ever queued.
import { useQuery } from "@tanstack/react-query";
import { isUsed, missingWorkers, tasksQuery, type TaskKind } from "../../../api/tasks";
import type { Session } from "../../../api/types";
import { Badge } from "../../../ui/badge";
import { CopyBlock } from "../../../ui/copy";
import { number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { UserText } from "../../../ui/plain-text";

export function QueuePanel({ session }: { session: Session }) {
  const { data: counts } = useQuery(tasksQuery(session));
  if (!counts || !isUsed(counts)) return null;
  const rows = [
    { name: "waiting", value: counts.waiting },
    { name: "running", value: counts.running },
    { name: "done", value: counts.done },
    { name: "failed", value: counts.failed },
  ];
  const missing = missingWorkers(counts);
  return (
    <Panel
      title="Queue of tasks"
      actions={
        <Badge tone={missing.length > 0 ? "warn" : counts.running > 0 ? "busy" : "neutral"}>
          {counts.workers === 1 ? "1 worker" : `${number(counts.workers)} workers`}
        </Badge>
      }
    >
      <dl className="tabular-nums">
        {rows.map((row) => (
          <div
            key={row.name}
            className={`flex justify-between gap-3 px-4 py-1 ${row.value === 0 ? "text-muted" : ""}`}
          >
            <dt>{row.name}</dt>
            <dd>{number(row.value)}</dd>
          </div>
        ))}
      </dl>
      {missing.map((kind) => (
        <div key={kind} className="space-y-2 border-t border-line px-4 py-2 text-xs text-muted">
          <p>
            {kind === "judged"
              ? "Tasks with a judge wait for a worker."
              : "Tasks wait for a worker."}{" "}
            On any machine, with the client and the two variables that a new key shows (“API keys”):
          </p>
          <CopyBlock label="shell" text={workerCommand(session.id, kind)} />
        </div>
      ))}
      {counts.failures.length > 0 && (
        <ul className="border-t border-line px-4 py-2 text-xs" aria-label="Attempts that failed">
          {counts.failures.map((failure, at) => (
            <li key={at} className="break-words">
              <UserText className="font-mono" text={failure.name} />:{" "}
              <UserText text={failure.error} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** It ends with the session. */
export function workerCommand(sessionId: string, kind: TaskKind): string {
  return `tinkerscript worker my_agent:run --session ${sessionId}${kind === "judged" ? " --judge my_judge:rank" : ""}`;
}
