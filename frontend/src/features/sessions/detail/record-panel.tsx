// The session's record in words, newest first: state changes and events. Its runtime's log stands beside it.
import { Tabs } from "radix-ui";
import type { SessionRecord } from "../../../live/record";
import { dateTime, timeOfDay } from "../../../ui/format";
import { RuntimeLog } from "./runtime-log";

const LOOKS = { state: "font-medium", phase: "text-muted", event: "" };

const tab =
  "h-10 border-b-2 border-transparent px-1 font-semibold text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink";

/** Longer than this it is shown in one line until it is opened: a stack dump has hundreds of lines. */
const SHORT = 90;

function Detail({ text }: { text: string }) {
  if (text.length <= SHORT) return <span className="min-w-0 text-xs break-words text-muted">{text}</span>;
  return (
    <details className="group min-w-0 flex-1 text-xs text-muted">
      <summary className="cursor-pointer truncate group-open:whitespace-normal">{text.slice(0, SHORT)}…</summary>
      <pre tabIndex={0} className="mt-1 max-h-80 overflow-auto font-mono whitespace-pre-wrap">
        {text}
      </pre>
    </details>
  );
}

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
              <Detail text={entry.detail} />
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
