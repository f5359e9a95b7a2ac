// The session's record in words, newest first: state changes and events. Its runtime's log stands beside it.
import { Tabs } from "radix-ui";
import type { SessionRecord } from "../../live/record";
import { dateTime, timeOfDay } from "../../ui/format";
import { RuntimeLog } from "./runtime-log";

const LOOKS = { state: "font-medium", phase: "text-muted", event: "" };

const tab =
  "h-10 border-b-2 border-transparent px-1 font-semibold text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink";

export function RecordPanel({ sessionId, record }: { sessionId: string; record: SessionRecord }) {
  return (
    <Tabs.Root defaultValue="events" className="rounded-lg border border-line bg-surface">
      <Tabs.List aria-label="Record" className="flex gap-5 border-b border-line px-4">
        <Tabs.Trigger value="events" className={tab}>
          Events
        </Tabs.Trigger>
        <Tabs.Trigger value="log" className={tab}>
          Runtime log
        </Tabs.Trigger>
      </Tabs.List>
      <Tabs.Content value="events" className="max-h-80 overflow-y-auto">
        {record.timeline.length === 0 && <p className="p-4 text-muted">Nothing has happened yet.</p>}
        <ol className="divide-y divide-line">
          {record.timeline.toReversed().map((entry) => (
            <li key={entry.cursor} className="flex items-baseline gap-3 px-4 py-1.5">
              <time dateTime={entry.at} title={dateTime(entry.at)} className="shrink-0 text-xs text-muted tabular-nums">
                {timeOfDay(entry.at)}
              </time>
              <span className={`shrink-0 ${LOOKS[entry.kind]}`}>{entry.title}</span>
              <span className="min-w-0 truncate text-xs text-muted" title={entry.detail}>
                {entry.detail}
              </span>
            </li>
          ))}
        </ol>
      </Tabs.Content>
      <Tabs.Content value="log">
        <RuntimeLog sessionId={sessionId} />
      </Tabs.Content>
    </Tabs.Root>
  );
}
