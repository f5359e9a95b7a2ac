// What agents measured of each episode as columns of the list: those that the address names.
import type { Episode } from "../../../api/types";
import { withParts } from "../../../ui/address-part";

const BY_AGENT = "rewards_by_agent/";
const MOST = 8;

/** The names of what is measured of some of these episodes, as the API takes them. */
export function measuresOf(
  episodes: readonly Pick<Episode, "metrics" | "rewards_by_agent">[],
): string[] {
  const names = episodes.flatMap(({ metrics, rewards_by_agent: byAgent }) => [
    ...Object.keys(metrics),
    ...Object.keys(byAgent ?? {}).map((agent) => BY_AGENT + agent),
  ]);
  return [...new Set(names)].sort();
}

export function measureOfEpisode(
  { metrics, rewards_by_agent: byAgent }: Pick<Episode, "metrics" | "rewards_by_agent">,
  name: string,
): number | null {
  const [of, key] = name.startsWith(BY_AGENT)
    ? [byAgent ?? {}, name.slice(BY_AGENT.length)]
    : [metrics, name];
  return Object.hasOwn(of, key) ? (of[key] ?? null) : null; // an address may name anything
}

/** Of `columns=["turns"]`; what cannot be read is none. */
export function columnsIn(address: URLSearchParams): string[] {
  try {
    const named: unknown = JSON.parse(address.get("columns") ?? "[]");
    return Array.isArray(named)
      ? [...new Set(named.filter((name) => typeof name === "string"))].slice(0, MOST)
      : [];
  } catch {
    return [];
  }
}

/** The address with this column, or without it where it has it. */
export function withColumn(address: URLSearchParams, name: string): URLSearchParams {
  const now = columnsIn(address);
  const next = now.includes(name) ? now.filter((each) => each !== name) : [...now, name];
  return withParts(address, { columns: next.length > 0 ? JSON.stringify(next) : "" });
}
