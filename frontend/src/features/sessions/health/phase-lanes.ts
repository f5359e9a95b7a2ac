// The phases of a run as lanes of a chart over time, from the state entries of its record.
import type { Event } from "../../../api/types";

interface Stretch {
  /** The phase in words, as it was recorded: "training step 14". */
  title: string;
  beginMs: number;
  endMs: number;
}

export interface Lane {
  name: string;
  isState: boolean;
  stretches: Stretch[];
  longestS: number;
  /** How long the newest of them may go without progress; null where no runtime said. */
  deadlineS: number | null;
}

export interface Lanes {
  lanes: Lane[];
  beginMs: number;
  endMs: number;
}

/** "training step 14" and "training step 15" are one lane: what comes after a colon, in brackets or as a number is left out. */
export function laneName(phase: string): string {
  return phase
    .replace(/[:(].*$/, "")
    .replace(/\d+(\.\d+)?/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

/** `nowMs` ends what is still going on; a run that has ended is given null. */
export function phaseLanes(entries: readonly Event[], nowMs: number | null): Lanes {
  const changes = entries.filter((entry) => entry.kind === "state");
  const lanes = new Map<string, Lane>();
  const beginMs = timeOf(changes[0]);
  const lastMs = timeOf(changes[changes.length - 1]);
  const endMs = Math.max(lastMs, nowMs ?? lastMs);
  const put = (name: string, isState: boolean, stretch: Stretch, deadlineS: number | null) => {
    const key = `${isState ? "state" : "phase"} ${name}`;
    const lane = lanes.get(key) ?? { name, isState, stretches: [], longestS: 0, deadlineS: null };
    lane.stretches.push(stretch);
    lane.longestS = Math.max(lane.longestS, (stretch.endMs - stretch.beginMs) / 1000);
    lane.deadlineS = deadlineS ?? lane.deadlineS;
    lanes.set(key, lane);
  };
  changes.forEach((entry, at) => {
    const { from, to, phase, deadline_s: deadline } = entry.data;
    const stateAgain = at > 0 && from === to;
    const next = changes[at + 1];
    if (typeof phase === "string" && laneName(phase)) {
      const stretch = { title: phase, beginMs: timeOf(entry), endMs: next ? timeOf(next) : endMs };
      put(laneName(phase), false, stretch, typeof deadline === "number" ? deadline : null);
    }
    if (stateAgain) return;
    let following = at + 1;
    while (changes[following] && changes[following]?.data.from === changes[following]?.data.to)
      following += 1;
    const until = changes[following];
    put(
      String(to),
      true,
      { title: String(to), beginMs: timeOf(entry), endMs: until ? timeOf(until) : endMs },
      null,
    );
  });
  const ordered = [...lanes.values()].sort((a, b) => Number(b.isState) - Number(a.isState));
  return { lanes: ordered, beginMs, endMs };
}

function timeOf(entry: Event | undefined): number {
  return entry ? Date.parse(entry.at) : 0;
}
