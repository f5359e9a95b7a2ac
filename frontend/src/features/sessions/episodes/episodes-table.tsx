// A table of any length: only the rows in view are in the page, on paper all that were read. In a narrow window rows are cards.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState, type CSSProperties } from "react";
import { Link, useNavigate } from "react-router";
import type { Episode } from "../../../api/types";
import { ago, dateTime, number } from "../../../ui/format";
import { AnnotationMarks } from "./annotations-panel";
import { FateBadge } from "./fate-badge";
import { nameOf } from "./first-line";
import { measureOfEpisode } from "./own-columns";
import { beginning, visible, UserText } from "../../../ui/plain-text";
import { usePrinting } from "../../../ui/theme";
import { useNarrow } from "../../../ui/use-narrow";
import { Word } from "../../../ui/word";
import { useKeptScroll } from "./use-kept-scroll";
import { useKeys } from "./use-keys";

const ROW_PX = 32;
const CARD_PX = 150; // about: a card is as high as what it holds, and so is a row on paper
const COLUMNS =
  "sm:grid sm:grid-cols-[minmax(8rem,2fr)_7.5rem_5rem_5rem_4.5rem_5rem_var(--own,)_minmax(10rem,3fr)_6rem] sm:items-center sm:gap-x-3 px-4 sm:min-w-[calc(56rem+var(--own-width,0rem))] print:min-w-0 print:gap-x-1 print:grid-cols-[minmax(5rem,1fr)_6rem_3.5rem_4.5rem_3rem_3rem_var(--own,)_minmax(7rem,3fr)_4.5rem]";
const CARD = "grid grid-cols-2 gap-x-3 gap-y-1 py-2 sm:py-0 print:py-1";
const HEAD = ["Task", "Fate"];
const NUMBERS = ["Reward", "Advantage", "Version", "Tokens"];
const OWN_REM = 6;

interface Props {
  episodes: Episode[];
  /** Where an episode is read. */
  pathOf: (episode: Episode) => string;
  onEnd: () => void;
  /** The list's name, under which this tab remembers where it was scrolled to. */
  place: string;
  /** What agents measured that has a column. */
  own?: readonly string[];
}

export function EpisodesTable(props: Props) {
  const narrow = useNarrow();
  return <Rows key={String(narrow)} narrow={narrow} {...props} />; // heights that were measured are of one of the two forms
}

function Rows({ episodes, pathOf, onEnd, place, own = [], narrow }: Props & { narrow: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const printing = usePrinting();
  const [chosen, setChosen] = useState(-1);
  // The library keeps its own state and hands out new functions at each render: it is not to be memoised.
  // eslint-disable-next-line react-hooks/incompatible-library
  const rows = useVirtualizer({
    count: episodes.length,
    getScrollElement: () => box.current,
    estimateSize: () => (narrow ? CARD_PX : ROW_PX),
    overscan: printing ? episodes.length : 8,
  });
  const shown = rows.getVirtualItems();
  const last = shown[shown.length - 1]?.index ?? 0;
  useEffect(() => {
    if (!printing && last >= episodes.length - 20) onEnd(); // on paper the last row is always there
  }, [printing, last, episodes.length, onEnd]);

  useKeptScroll(box, { name: place, count: episodes.length, more: onEnd });

  const choose = (by: number) => {
    const at = Math.min(episodes.length - 1, Math.max(0, chosen + by));
    setChosen(at);
    rows.scrollToIndex(at);
  };
  const open = () => {
    const episode = episodes[chosen];
    if (episode) void navigate(pathOf(episode));
  };
  const widths = (
    own.length > 0
      ? {
          "--own": `repeat(${String(own.length)}, ${String(OWN_REM)}rem)`,
          "--own-width": `${String(own.length * (OWN_REM + 1))}rem`,
        }
      : {}
  ) as CSSProperties;
  const keys = {
    j: () => {
      choose(1);
    },
    k: () => {
      choose(-1);
    },
    ...(chosen >= 0 ? { Enter: open } : {}),
  };
  useKeys(keys);
  return (
    <div
      ref={box}
      tabIndex={0}
      role="table"
      aria-label="Episodes"
      aria-rowcount={episodes.length + 1}
      style={widths}
      className="relative max-h-[70vh] overflow-auto rounded-lg border border-line bg-surface tabular-nums"
    >
      <div
        role="row"
        className={`max-sm:sr-only ${COLUMNS} sticky top-0 z-10 h-9 border-b border-line bg-surface text-xs font-medium text-muted`}
      >
        {[...HEAD, ...NUMBERS, ...own, "Answer", "Began"].map((name) => (
          <span
            key={name}
            role="columnheader"
            className={`truncate ${NUMBERS.includes(name) || own.includes(name) ? "text-right" : ""}`}
            title={visible(name)}
          >
            <Word text={visible(name)} />
          </span>
        ))}
      </div>
      <div
        role="rowgroup"
        className="relative sm:min-w-[calc(56rem+var(--own-width,0rem))] print:min-w-0"
        style={printing ? undefined : { height: `${String(rows.getTotalSize())}px` }}
      >
        {shown.map((row) => {
          const episode = episodes[row.index];
          if (!episode) return null;
          return (
            <div
              key={episode.episode_id}
              ref={narrow ? rows.measureElement : undefined}
              data-index={row.index}
              role="row"
              aria-rowindex={row.index + 2}
              aria-current={row.index === chosen || undefined}
              className={`${CARD} ${COLUMNS} ${printing ? "" : "absolute inset-x-0 top-0"} border-b border-line ${row.index === chosen ? "bg-accent-soft" : "hover:bg-sunken"}`}
              style={
                printing
                  ? undefined
                  : {
                      ...(narrow ? {} : { height: `${String(row.size)}px` }),
                      transform: `translateY(${String(row.start)}px)`,
                    }
              }
            >
              <EpisodeCells episode={episode} path={pathOf(episode)} own={own} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function EpisodeCells({
  episode,
  path,
  own,
}: {
  episode: Episode;
  path: string;
  own: readonly string[];
}) {
  const name = visible(nameOf(episode));
  const first = episode.policy_version_first;
  const versions =
    first === null
      ? "–"
      : first === episode.policy_version_last
        ? String(first)
        : `${String(first)}–${String(episode.policy_version_last)}`;
  return (
    <>
      <span role="cell" className="min-w-0 max-sm:col-span-2">
        <Link
          to={path}
          title={name}
          className="block truncate rounded font-medium hover:text-accent hover:underline"
        >
          <UserText text={name} />
        </Link>
      </span>
      <span role="cell">
        <FateBadge episode={episode} />
        <AnnotationMarks annotations={episode.annotations} />
      </span>
      <Value name="Reward">{number(episode.reward)}</Value>
      <Value name="Advantage">{number(episode.advantage)}</Value>
      <Value name="Version">{versions}</Value>
      <Value name="Tokens">{number(episode.sampled_tokens)}</Value>
      {own.map((name) => (
        <Value key={name} name={visible(name)}>
          {number(measureOfEpisode(episode, name))}
        </Value>
      ))}
      <span
        role="cell"
        className="line-clamp-1 min-w-0 max-sm:line-clamp-2 max-sm:order-last max-sm:col-span-2 font-mono text-xs wrap-anywhere text-muted"
      >
        <UserText text={(beginning(episode.answer, 300) ?? episode.answer) || "–"} />
      </span>
      <span
        role="cell"
        className="text-xs whitespace-nowrap text-muted"
        title={dateTime(new Date(episode.begun_at * 1000).toISOString())}
      >
        {ago(new Date(episode.begun_at * 1000).toISOString())}
      </span>
    </>
  );
}

/** A cell of the table, on a card with its column's name. */
function Value({ name, children }: { name: string; children: string }) {
  return (
    <span role="cell" className="sm:text-right">
      <span aria-hidden className="mr-2 text-xs text-muted sm:hidden">
        {name}
      </span>
      <span className="whitespace-nowrap">{children}</span>
    </span>
  );
}
