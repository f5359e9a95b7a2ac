// Which colour a token has under the chosen measure: a few steps of one, so that thousands of spans share their styles.
import type { TokenRun } from "../../../api/types";
import { heatLevel, STEPS, surpriseHeat } from "../../../ui/surprise";

export type Measure = "logprob" | "advantage" | "version" | "none";

export const MEASURES: { value: Measure; name: string }[] = [
  { value: "logprob", name: "Log-probability" },
  { value: "advantage", name: "Advantage" },
  { value: "version", name: "Policy version" },
  { value: "none", name: "Nothing" },
];

export function measureOf(address: URLSearchParams): Measure {
  return MEASURES.find(({ value }) => value === address.get("colour"))?.value ?? "logprob";
}

/** What the colours of one episode are relative to. */
export interface Scale {
  /** The largest size of an advantage. */
  advantage: number;
  versions: number[];
}

export function scaleOf(runs: TokenRun[]): Scale {
  const sampled = runs.filter((run) => run.call !== null);
  return {
    advantage: Math.max(0, ...sampled.map((run) => Math.abs(run.advantage ?? 0))),
    versions: [...new Set(sampled.flatMap((run) => run.policy_versions))].sort((one, other) => one - other),
  };
}

/** The value of `data-heat` (styles.css): "s1" to "s5" for surprise, "g…" and "b…" for good and bad, "v0" to "v4", or none. */
export function heatOf(run: TokenRun, at: number, measure: Measure, scale: Scale): string | undefined {
  if (run.call === null) return undefined;
  if (measure === "logprob") return surpriseHeat(run.logprobs[at]);
  if (measure === "advantage") {
    if (run.advantage === null || scale.advantage === 0) return undefined;
    return heatLevel(run.advantage > 0 ? "g" : "b", Math.abs(run.advantage) / scale.advantage);
  }
  if (measure === "version") return `v${String(Math.max(0, scale.versions.indexOf(run.policy_versions[at] ?? -1)) % STEPS)}`;
  return undefined;
}
