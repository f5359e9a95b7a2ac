// What the list of episodes is narrowed to and how it is sorted. It stands in the address of the list and of each episode.
import type { EpisodeFilter } from "../../../api/episodes";
import type { EpisodeFate, EpisodeSort } from "../../../api/types";

export const FATES: { value: EpisodeFate; name: string }[] = [
  { value: "open", name: "Open" },
  { value: "waiting", name: "Waiting for its group" },
  { value: "trained", name: "Trained" },
  { value: "eval", name: "Evaluation" },
  { value: "stale", name: "Stale" },
  { value: "abandoned", name: "Abandoned" },
  { value: "expired", name: "Expired" },
];

export const SORTS: { value: EpisodeSort; name: string }[] = [
  { value: "newest", name: "Newest" },
  { value: "oldest", name: "Oldest" },
  { value: "best", name: "Best reward" },
  { value: "worst", name: "Worst reward" },
  { value: "surprising", name: "Most surprising" },
  { value: "longest", name: "Longest" },
];

const NUMBERS = ["reward_min", "reward_max", "version", "step"];
const CHOICES: [string, string[]][] = [
  ["eval", ["true", "false"]],
  ["thumb", ["up", "down"]],
  ["commented", ["true", "false"]],
];
/** A bound on a measure; while it is typed it is none yet. */
export const BOUND = /^.+(?:>=|<=)\s*-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?$/i;
const TEXTS = ["q", "task", "agent"];

/** What an address asks of the API. What makes no sense there is left out, so that an edited address still shows a list. */
export function filterOf(address: URLSearchParams): EpisodeFilter {
  const asked: EpisodeFilter = [];
  for (const name of TEXTS) {
    const value = (address.get(name) ?? "").trim();
    if (value) asked.push([name, value]);
  }
  for (const name of NUMBERS) {
    const value = (address.get(name) ?? "").trim();
    if (
      value &&
      Number.isFinite(Number(value)) &&
      (name.startsWith("reward") || /^\d{1,9}$/.test(value))
    )
      asked.push([name, value]);
  }
  for (const fate of address.getAll("fate"))
    if (FATES.some(({ value }) => value === fate)) asked.push(["fate", fate]);
  for (const [name, choices] of CHOICES) {
    const value = address.get(name) ?? "";
    if (choices.includes(value)) asked.push([name, value]);
  }
  const metric = (address.get("metric") ?? "").trim();
  if (BOUND.test(metric)) asked.push(["metric", metric]);
  const sort = address.get("sort");
  if (SORTS.some(({ value }) => value === sort)) asked.push(["sort", sort ?? ""]);
  return asked;
}

/** The part of an address that belongs to the list: what a link to an episode takes with it. */
export function listPart(address: URLSearchParams): string {
  const columns = address.get("columns");
  const text = new URLSearchParams([
    ...filterOf(address),
    ...(columns ? [["columns", columns]] : []),
  ]).toString();
  return text && `?${text}`;
}
