// What the shown episodes are: their rewards as bars, their fates, their tasks. A press narrows the list to it, and another one widens it.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { facetsQuery, type EpisodeFilter } from "../../../api/episodes";
import type { EpisodeFacets as Facets } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { Button } from "../../../ui/button";
import { number } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { visible, UserText } from "../../../ui/plain-text";
import { FATES, SORTS } from "./episode-filter";
import { rewardBars } from "./reward-bars";

interface Props {
  id: string;
  filter: EpisodeFilter;
  isLive: boolean;
}

export function EpisodeFacets({ id, filter, isLive }: Props) {
  const { data, error, isPlaceholderData } = useQuery(facetsQuery(id, filter, isLive));
  if (error)
    return (
      <div className="mb-3">
        <ErrorNotice error={error} />
      </div>
    );
  if (!data)
    return <div className="mb-3 h-40 rounded-lg border border-line bg-surface" aria-busy />;
  const hasAny = data.episodes > 0 || Object.keys(data.fates).length > 0 || data.tasks.length > 0;
  if (!hasAny) return null;
  return (
    <section
      aria-label="What these episodes are"
      aria-busy={isPlaceholderData}
      className="mb-3 grid gap-4 rounded-lg border border-line bg-surface p-4 lg:grid-cols-[minmax(0,1fr)_minmax(0,2fr)]"
    >
      <Rewards facets={data} />
      <div className="min-w-0 space-y-2 text-xs">
        <Chips
          name="sort"
          label="Sort"
          choices={SORTS.slice(2).map(({ value, name }) => ({ value, shown: name }))}
        />
        <Chips
          name="fate"
          label="Fate"
          choices={FATES.flatMap(({ value, name }) => {
            const count = data.fates[value];
            return count ? [{ value, shown: name, count }] : [];
          })}
        />
        <Chips
          name="task"
          label="Task"
          choices={data.tasks.map(({ task, count }) => ({
            value: task,
            shown: <UserText text={task} />,
            title: visible(task),
            count,
          }))}
        >
          {data.tasks_in_all > data.tasks.length && (
            <span className="text-muted">
              and {number(data.tasks_in_all - data.tasks.length)} more
            </span>
          )}
        </Chips>
      </div>
    </section>
  );
}

function Rewards({ facets }: { facets: Facets }) {
  const [address, setAddress] = useAddress();
  const { bars, columns } = rewardBars(facets.rewards);
  const isNarrowed = address.has("reward_min") || address.has("reward_max");
  const narrow = (lowest: string, highest: string) => {
    setAddress({ reward_min: lowest, reward_max: highest }, { replace: false });
  };
  const [first, last] = [bars[0], bars[bars.length - 1]];
  return (
    <div className="min-w-0 text-xs">
      <p className="mb-1 flex flex-wrap items-center gap-2 text-muted">
        <span className="font-medium text-ink">{number(facets.episodes)} episodes</span>
        {facets.evaluation > 0 && `${number(facets.evaluation)} for evaluation`}
        {facets.reward_mean !== null && (
          <span className="tabular-nums">mean reward {number(facets.reward_mean)}</span>
        )}
        {isNarrowed && (
          <Button
            onClick={() => {
              narrow("", "");
            }}
          >
            Every reward
          </Button>
        )}
      </p>
      {bars.length === 0 && <p className="text-muted">None of them has a reward.</p>}
      {first && last && (
        <>
          <div
            role="group"
            aria-label="Rewards"
            className="grid h-24 items-end gap-px border-b border-line-strong"
            style={{
              gridTemplateColumns: `repeat(${String(columns)}, minmax(0, ${columns === 1 ? "6rem" : "1fr"}))`,
            }}
          >
            {bars.map((bar) => (
              <button
                key={bar.column}
                type="button"
                aria-label={bar.text}
                title={bar.text}
                className="group flex h-full items-end rounded-t hover:bg-sunken"
                style={{ gridColumn: bar.column }}
                onClick={() => {
                  narrow(String(bar.lowest), String(bar.highest));
                }}
              >
                <span
                  aria-hidden
                  className="block w-full rounded-t-sm bg-accent group-hover:opacity-80"
                  style={{ height: `max(2px, ${String(bar.share * 100)}%)` }}
                />
              </button>
            ))}
          </div>
          <p className="mt-0.5 flex justify-between text-muted tabular-nums">
            <span>{number(first.lowest)}</span>
            {first.lowest !== last.highest && <span>{number(last.highest)}</span>}
          </p>
        </>
      )}
    </div>
  );
}

interface ChipsProps {
  /** The part of the address. */
  name: string;
  label: string;
  choices: { value: string; shown: ReactNode; title?: string; count?: number }[];
  children?: ReactNode;
}

function Chips({ name, label, choices, children }: ChipsProps) {
  const [address, setAddress] = useAddress();
  const now = address.getAll(name);
  if (choices.length === 0) return null;
  return (
    <div role="group" aria-label={label} className="flex items-start gap-1">
      <span className="w-10 shrink-0 py-0.5 text-muted">{label}</span>
      <div className="flex min-w-0 flex-wrap items-center gap-1">
        {choices.map(({ value, shown, title, count }) => {
          const isChosen = now.includes(value);
          return (
            <button
              key={value}
              type="button"
              aria-pressed={isChosen}
              title={title}
              className={`flex max-w-48 items-center gap-1.5 rounded border px-1.5 py-0.5 ${isChosen ? "border-accent bg-accent-soft text-accent" : "border-line hover:bg-sunken"}`}
              onClick={() => {
                setAddress({ [name]: isChosen ? "" : value }, { replace: false });
              }}
            >
              <span className="truncate">{shown}</span>
              {count !== undefined && (
                <span className={`tabular-nums ${isChosen ? "" : "text-muted"}`}>
                  {number(count)}
                </span>
              )}
            </button>
          );
        })}
        {children}
      </div>
    </div>
  );
}
