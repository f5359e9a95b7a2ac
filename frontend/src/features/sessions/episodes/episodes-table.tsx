// A table of any length: only the rows in view are in the page, on paper all that were read.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { Link, useNavigate } from "react-router";
import type { Episode } from "../../../api/types";
import { ago, dateTime, number } from "../../../ui/format";
import { AnnotationMarks } from "./annotations-panel";
import { FateBadge } from "./fate-badge";
import { beginning, visible } from "../../../ui/plain-text";
import { usePrinting } from "../../../ui/theme";
import { useKeys } from "./use-keys";

const ROW = 56;
const COLUMNS = "grid grid-cols-[minmax(8rem,1fr)_7.5rem_5rem_5rem_4.5rem_5rem_minmax(10rem,3fr)_6rem] items-center gap-x-3 px-4 min-w-[56rem]";
const HEAD = ["Task", "Fate", "Reward", "Advantage", "Version", "Tokens", "Answer", "Began"];

interface Props {
  episodes: Episode[];
  /** Where an episode is read. */
  pathOf: (episode: Episode) => string;
  onEnd: () => void;
}

export function EpisodesTable({ episodes, pathOf, onEnd }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const printing = usePrinting();
  const [chosen, setChosen] = useState(-1);
  // The library keeps its own state and hands out new functions at each render: it is not to be memoised.
  // eslint-disable-next-line react-hooks/incompatible-library
  const rows = useVirtualizer({ count: episodes.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: printing ? episodes.length : 8 });
  const shown = rows.getVirtualItems();
  const last = shown[shown.length - 1]?.index ?? 0;
  useEffect(() => {
    if (!printing && last >= episodes.length - 20) onEnd(); // on paper the last row is always there
  }, [printing, last, episodes.length, onEnd]);

  const choose = (by: number) => {
    const at = Math.min(episodes.length - 1, Math.max(0, chosen + by));
    setChosen(at);
    rows.scrollToIndex(at);
  };
  const open = () => {
    const episode = episodes[chosen];
    if (episode) void navigate(pathOf(episode));
  };
  const keys = { j: () => { choose(1); }, k: () => { choose(-1); }, ...(chosen >= 0 ? { Enter: open } : {}) };
  useKeys(keys);
  const style = { height: `${String(rows.getTotalSize())}px` };
  return (
    <div ref={box} tabIndex={0} role="table" aria-label="Episodes" aria-rowcount={episodes.length + 1} className="relative max-h-[70vh] overflow-auto rounded-lg border border-line bg-surface tabular-nums">
      <div role="row" className={`${COLUMNS} sticky top-0 z-10 h-9 border-b border-line bg-surface text-xs font-medium text-muted`}>
        {HEAD.map((name) => (
          <span key={name} role="columnheader">
            {name}
          </span>
        ))}
      </div>
      <div role="rowgroup" className="relative min-w-[56rem]" style={style}>
        {shown.map((row) => {
          const episode = episodes[row.index];
          if (!episode) return null;
          return (
            <div
              key={episode.episode_id}
              role="row"
              aria-rowindex={row.index + 2}
              aria-current={row.index === chosen || undefined}
              className={`${COLUMNS} absolute inset-x-0 top-0 border-b border-line ${row.index === chosen ? "bg-accent-soft" : "hover:bg-sunken"}`}
              style={{ height: `${String(row.size)}px`, transform: `translateY(${String(row.start)}px)` }}
            >
              <EpisodeCells episode={episode} path={pathOf(episode)} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function EpisodeCells({ episode, path }: { episode: Episode; path: string }) {
  const name = visible(episode.task ?? episode.episode_id);
  const first = episode.policy_version_first;
  const versions = first === null ? "–" : first === episode.policy_version_last ? String(first) : `${String(first)}–${String(episode.policy_version_last)}`;
  return (
    <>
      <span role="cell" className="min-w-0">
        <Link to={path} title={name} className="block truncate rounded font-medium hover:text-accent hover:underline">
          <bdi>{name}</bdi>
        </Link>
      </span>
      <span role="cell">
        <FateBadge episode={episode} />
        <AnnotationMarks annotations={episode.annotations} />
      </span>
      <span role="cell">{number(episode.reward)}</span>
      <span role="cell">{number(episode.advantage)}</span>
      <span role="cell">{versions}</span>
      <span role="cell">{number(episode.sampled_tokens)}</span>
      <span role="cell" className="line-clamp-2 min-w-0 font-mono text-xs wrap-anywhere text-muted">
        <bdi>{visible(beginning(episode.answer, 300) ?? episode.answer) || "–"}</bdi>
      </span>
      <span role="cell" className="text-xs whitespace-nowrap text-muted" title={dateTime(new Date(episode.begun_at * 1000).toISOString())}>
        {ago(new Date(episode.begun_at * 1000).toISOString())}
      </span>
    </>
  );
}
