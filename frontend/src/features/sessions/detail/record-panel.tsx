// The session's record in words, newest first: state changes and events. Its runtime's log stands beside it.
import { useMutation, useQueries } from "@tanstack/react-query";
import { Tabs } from "radix-ui";
import { useRef } from "react";
import { Link } from "react-router";
import { endedEpisodeQuery } from "../../../api/episodes";
import { downloadBatch } from "../../../api/sessions";
import type { TimelineEntry, SessionRecord } from "../../../live/record";
import { Button } from "../../../ui/button";
import { CutText } from "../../../ui/cut-text";
import { dateTime, timeOfDay } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { visible } from "../../../ui/plain-text";
import { useNear } from "../../../ui/use-near";
import { questionOf } from "../episodes/first-line";
import { RuntimeLog } from "./runtime-log";

const UNNAMED = /^prompt:[0-9a-f]{32}$/;

/** The key of each, and an episode of it, which has the question. */
export function askedOf({ data = {} }: TimelineEntry): { key: string; episodeId: string }[] {
  const { tasks, episode_ids: ids } = data;
  if (!Array.isArray(tasks) || !Array.isArray(ids)) return [];
  return tasks.flatMap((key, at) => {
    const episodeId: unknown = ids[at];
    return typeof key === "string" && typeof episodeId === "string" && UNNAMED.test(key)
      ? [{ key, episodeId }]
      : [];
  });
}

const LOOKS = {
  state: "shrink-0 font-medium",
  phase: "min-w-0 wrap-anywhere text-muted",
  event: "shrink-0",
};

const tab =
  "h-10 border-b-2 border-transparent px-1 font-semibold text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink";

/** Longer than this it is shown in one line until it is opened: a stack dump has hundreds of lines. */
const SHORT = 90;
/** And so much of it is shown then, until the rest is asked for. */
const DETAIL_CHARACTERS = 50_000;

export function Detail({ text }: { text: string }) {
  if (text.length <= SHORT)
    return (
      <span className="min-w-0 text-xs break-words text-muted max-sm:order-last max-sm:basis-full">
        {visible(text)}
      </span>
    );
  return (
    <details className="group min-w-0 flex-1 text-xs text-muted max-sm:order-last max-sm:basis-full">
      <summary className="cursor-pointer truncate group-open:whitespace-normal">
        {visible(text.slice(0, SHORT))}…
      </summary>
      <pre tabIndex={0} className="mt-1 max-h-80 overflow-auto font-mono whitespace-pre-wrap">
        <CutText text={text} most={DETAIL_CHARACTERS} />
      </pre>
    </details>
  );
}

/** The detail of an event about tasks without a name: their questions, read once it is scrolled to. */
function AskedDetail({ sessionId, entry }: { sessionId: string; entry: TimelineEntry }) {
  const place = useRef<HTMLSpanElement>(null);
  const isNear = useNear(place);
  const asked = askedOf(entry);
  const answers = useQueries({
    queries: asked.map(({ episodeId }) => ({
      ...endedEpisodeQuery(sessionId, episodeId),
      enabled: isNear,
    })),
  });
  const detail = asked.reduce(
    (text, { key }, at) =>
      text.replace(key, () => questionOf(answers[at]?.data?.prompt ?? "") || "without a name"),
    entry.detail,
  );
  return (
    <span ref={place} className="flex min-w-0 flex-1 max-sm:order-last max-sm:basis-full">
      <Detail text={detail} />
    </span>
  );
}

/** From an event to what it is about: its step, and the batch that a refused step leaves while a runtime has it. */
export function EventLinks({
  sessionId,
  entry,
  isReady,
}: {
  sessionId: string;
  entry: TimelineEntry;
  isReady: boolean;
}) {
  const save = useMutation({ mutationFn: (batch: string) => downloadBatch(sessionId, batch) });
  const { batch, step } = entry;
  return (
    <span className="ml-auto flex shrink-0 items-baseline gap-2 text-xs">
      {step !== undefined && step > 0 && (
        <Link
          to={`/sessions/${sessionId}/steps/${String(step)}`}
          className="rounded text-accent hover:underline"
        >
          Step {step}
        </Link>
      )}
      {batch !== undefined && isReady && (
        <Button
          look="quiet"
          className="h-6 px-1.5 text-xs"
          disabled={save.isPending}
          onClick={() => {
            save.mutate(batch);
          }}
        >
          Download batch
        </Button>
      )}
      <ErrorNotice error={save.error} />
    </span>
  );
}

interface RecordPanelProps {
  sessionId: string;
  record: SessionRecord;
  /** Whether a runtime is there to be asked. */
  isReady: boolean;
}

export function RecordPanel({ sessionId, record, isReady }: RecordPanelProps) {
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
        {record.timeline.length === 0 && (
          <p className="p-4 text-muted">Nothing has happened yet.</p>
        )}
        <ol className="divide-y divide-line">
          {record.timeline.toReversed().map((entry) => (
            <li
              key={entry.cursor}
              className="flex flex-wrap items-baseline gap-x-3 gap-y-0.5 px-4 py-1.5 sm:flex-nowrap"
            >
              <time
                dateTime={entry.at}
                title={dateTime(entry.at)}
                className="shrink-0 text-xs text-muted tabular-nums"
              >
                {timeOfDay(entry.at)}
              </time>
              <span className={LOOKS[entry.kind]}>{entry.title}</span>
              {askedOf(entry).length > 0 ? (
                <AskedDetail sessionId={sessionId} entry={entry} />
              ) : (
                <Detail text={entry.detail} />
              )}
              {(entry.batch !== undefined || entry.step !== undefined) && (
                <EventLinks sessionId={sessionId} entry={entry} isReady={isReady} />
              )}
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
