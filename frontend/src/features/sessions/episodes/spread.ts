// How the values of a step's episodes spread, as bars, and what its machine had in use when it was done.
import type { Group, ResourceColumns, Step } from "../../../api/types";
import { bytes, number } from "../../../ui/format";
import { isFlat } from "../../../ui/plot-range";

export interface Bar {
  /** What the values of the bar are: "0 to 0.25", or the value that all of them have. */
  text: string;
  count: number;
}

const BARS = 10;
const MOST_BARS = 50;
const NEAR_S = 600; // of samples that are older than a day one in five minutes is kept

/** Between the extremes in equal parts; a value at a border is in the part above it, and the highest in the last. */
export function histogram(values: readonly number[], parts = BARS): Bar[] {
  if (values.length === 0) return [];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (isFlat(low, high)) return [{ text: number(low), count: values.length }];
  const width = high / parts - low / parts; // the difference of two huge numbers is not finite
  const bars = Array.from({ length: parts }, (_, at) => ({
    text: `${number(low + at * width)} to ${number(low + (at + 1) * width)}`,
    count: 0,
  }));
  for (const value of values) {
    const bar = bars[Math.min(Math.floor(value / width - low / width), parts - 1)];
    if (bar) bar.count += 1;
  }
  return bars;
}

/** A bar for each whole number between the extremes; for parts of the range where there are too many of them. */
export function wholeBars(values: readonly number[]): Bar[] {
  if (values.length === 0) return [];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (high - low >= MOST_BARS) return histogram(values);
  return Array.from({ length: high - low + 1 }, (_, at) => ({
    text: String(low + at),
    count: values.filter((value) => value === low + at).length,
  }));
}

// As the wire counts them: RATIO_EDGES of tinkerscript/wire/training/engine_correction.py.
export const RATIO_EDGES = [
  0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0001, 1.001, 1.01, 1.05, 1.1, 1.25, 2,
];

/** The ratios of the trained tokens of episodes, added up; none where none of them has kept any. */
export function ratioBars(counts: readonly (readonly number[] | null)[]): Bar[] {
  const known = counts.filter((each) => each !== null);
  if (known.length === 0) return [];
  const text = (at: number) => {
    const [from, to] = [RATIO_EDGES[at - 1], RATIO_EDGES[at]].map((edge) =>
      edge === undefined ? null : String(edge),
    );
    if (from === null) return `below ${to ?? ""}`;
    return to === null ? `${from ?? ""} or more` : `${from ?? ""} to ${to ?? ""}`;
  };
  return Array.from({ length: RATIO_EDGES.length + 1 }, (_, at) => ({
    text: text(at),
    count: known.reduce((sum, each) => sum + (each[at] ?? 0), 0),
  }));
}

export interface Spread {
  title: string;
  unit: string;
  bars: Bar[];
}

/** Rewards, advantages, ratios of tokens, and how many versions before the step its episodes began. */
export function spreadsOf({ step, groups }: Step): Spread[] {
  const episodes = groups.flatMap((group) => group.episodes);
  const known = (values: (number | null)[]) => values.filter((value) => value !== null);
  const spreads = [
    {
      title: "Rewards",
      unit: "episodes",
      bars: histogram(known(episodes.map(({ reward }) => reward))),
    },
    {
      title: "Advantages",
      unit: "episodes",
      bars: histogram(known(episodes.map(({ advantage }) => advantage))),
    },
    {
      title: "Ratios",
      unit: "tokens, trainer to sampled",
      bars: ratioBars(episodes.map(({ ratio_counts: counts }) => counts)),
    },
    {
      title: "Staleness",
      unit: "episodes, by versions behind",
      bars: wholeBars(
        known(
          episodes.map(({ policy_version_first: first }) =>
            first === null ? null : Math.max(0, step - 1 - first),
          ),
        ),
      ),
    },
  ];
  return spreads.filter(({ bars }) => bars.length > 0);
}

/** What became of the groups besides those that taught something, in words; null where every one did. */
export function skippedText(groups: readonly Group[], replaced: number): string | null {
  const equal = groups.filter((group) => !group.has_signal).length;
  const named = (n: number) => (n === 1 ? "group" : "groups");
  const said = [
    equal > 0 &&
      `${number(equal)} of ${number(groups.length)} ${named(groups.length)} had equal rewards and taught nothing`,
    replaced > 0 &&
      `${number(replaced)} ${named(replaced)} without a gradient ${replaced === 1 ? "was" : "were"} set aside on the way to this step`,
  ].filter((one) => one !== false);
  return said.length === 0 ? null : `${said.join("; ")}.`;
}

/** Name with what there is in all, and what was used, of each kind of memory at the sample nearest to `at`; none where no sample is near. */
export function memoryAt(
  { x, columns, latest }: ResourceColumns,
  createdAt: string,
  at: string,
): [string, string][] {
  const seconds = (Date.parse(at) - Date.parse(createdAt)) / 1000;
  let nearest = -1;
  x.forEach((place, index) => {
    if (nearest < 0 || Math.abs(place - seconds) < Math.abs((x[nearest] ?? 0) - seconds))
      nearest = index;
  });
  if (!latest || nearest < 0 || Math.abs((x[nearest] ?? 0) - seconds) > NEAR_S) return [];
  const value = (name: string) => columns[name]?.mean[nearest] ?? null;
  const all: [string, number | null, number | null][] = [
    ["Memory", value("memory_bytes"), latest.memory_total_bytes],
    ...latest.gpus.map((gpu, index): [string, number | null, number | null] => [
      `GPU ${String(index)} memory`,
      value(`gpu${String(index)}_memory_bytes`),
      gpu.memory_total_bytes,
    ]),
  ];
  return all.flatMap(([name, used, total]) =>
    used === null
      ? []
      : [[total === null ? name : `${name} of ${bytes(total)}`, bytes(used)] as [string, string]],
  );
}
