// What a live run is at: what its runtime does and until when it may, which groups are filling, which episodes ended last.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "react-router";
import { nowQuery } from "../../../api/episodes";
import { isExported } from "../../../api/offline";
import type { Episode, Session, SessionState } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import { ago, number, span } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { UserText } from "../../../ui/plain-text";
import { FateBadge } from "../episodes/fate-badge";
import { firstLine, nameOf } from "../episodes/first-line";
import { fillingGroups, fullGroups, lastEnded, type FillingGroup } from "./filling-groups";

const GROUPS = 8;
const EPISODES = 10;
const MOST_CELLS = 16;

export function NowPanel({ session, record }: { session: Session; record: SessionRecord }) {
  const { data, error } = useQuery(nowQuery(session.id));
  const size = session.config.grpo_n;
  const groups = data ? fillingGroups(data) : [];
  const ended = data ? lastEnded(data, EPISODES) : [];
  return (
    <Panel title="Now">
      <PhaseNow session={session} record={record} />
      <ErrorNotice error={error} />
      <section aria-label="Groups that are filling" className="border-t border-line px-4 py-2">
        <h3 className="flex flex-wrap justify-between gap-x-3 text-xs font-semibold">
          Groups that are filling
          <span className="font-normal text-muted tabular-nums">
            {number(fullGroups(groups, size))} of {number(session.config.tasks_per_batch)} full for
            the next step
          </span>
        </h3>
        {data && groups.length === 0 && (
          <p className="py-1 text-xs text-muted">None: no episode is open or waits.</p>
        )}
        <ul className="mt-1 space-y-1">
          {groups.slice(0, GROUPS).map((group) => (
            <Filling key={group.key} group={group} size={size} />
          ))}
        </ul>
        {groups.length > GROUPS && (
          <p className="pt-1 text-xs text-muted">and {number(groups.length - GROUPS)} more</p>
        )}
      </section>
      <section aria-label="Last episodes" className="border-t border-line px-4 py-2">
        <h3 className="text-xs font-semibold">Last episodes</h3>
        {data && ended.length === 0 && (
          <p className="py-1 text-xs text-muted">None of the newest has ended with a reward.</p>
        )}
        <ol className="mt-1 divide-y divide-line">
          {ended.map((episode) => (
            <Ended key={episode.episode_id} id={session.id} episode={episode} />
          ))}
        </ol>
      </section>
    </Panel>
  );
}

/** The newest entry of the record that tells a phase says since when it is so, and how long it may stand still. */
function PhaseNow({ session, record }: { session: Session; record: SessionRecord }) {
  const now = useNow();
  const entry = record.timeline.findLast(({ kind }) => kind !== "event");
  const since = entry && Math.max(0, (now - Date.parse(entry.at)) / 1000);
  return (
    <p className="px-4 py-2">
      <span className="font-medium wrap-anywhere">{session.phase || session.state}</span>
      {since !== undefined && (
        <span className="block text-xs text-muted tabular-nums">
          for {span(since)}
          {entry?.deadlineS !== undefined &&
            `; it counts as stuck after ${span(entry.deadlineS)} without progress`}
        </span>
      )}
    </p>
  );
}

function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      setNow(Date.now());
    }, 1_000);
    return () => {
      clearInterval(timer);
    };
  }, []);
  return now;
}

function Filling({ group: { name, ended, open }, size }: { group: FillingGroup; size: number }) {
  const cells = Array.from(
    { length: Math.min(size, MOST_CELLS) },
    (_, at) => ((at + 1) * size) / Math.min(size, MOST_CELLS),
  );
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 text-xs">
      <UserText className="truncate" text={name} />
      <span className="tabular-nums">
        {number(ended)} of {number(size)} ended
        {open > 0 && <span className="text-muted">, {number(open)} open</span>}
      </span>
      <span aria-hidden className="col-span-2 mt-0.5 flex h-1.5 gap-0.5">
        {cells.map((upTo) => (
          <span
            key={upTo}
            className={`flex-1 rounded-sm ${upTo <= ended ? "bg-accent" : upTo <= ended + open ? "border border-accent" : "bg-line"}`}
          />
        ))}
      </span>
    </li>
  );
}

function Ended({ id, episode }: { id: string; episode: Episode }) {
  return (
    <li className="flex items-center gap-2 py-1 text-xs">
      <Link
        to={`/sessions/${id}/episodes/${episode.episode_id}`}
        className="flex min-w-0 flex-1 gap-2 rounded text-accent hover:underline"
      >
        <span className="w-12 shrink-0 font-semibold tabular-nums">{number(episode.reward)}</span>
        <span className="min-w-0">
          <UserText className="block truncate" text={nameOf(episode)} />
          {episode.answer && (
            <UserText className="block truncate text-muted" text={firstLine(episode.answer)} />
          )}
        </span>
      </Link>
      <FateBadge episode={episode} />
      <span className="shrink-0 text-muted">
        {episode.ended_at !== null && ago(new Date(episode.ended_at * 1000).toISOString())}
      </span>
    </li>
  );
}

const WORKING: readonly SessionState[] = ["provisioning", "loading", "ready", "stopping"];

/** Which runs’ pages tell what the run is at now: those that train and have a runtime, which does something. */
export function hasNow({ kind, state }: Session): boolean {
  return kind === "episodes" && !isExported && WORKING.includes(state);
}
