// Which colour a token has under the chosen measure: a few steps of one, so that thousands of spans share their styles.
import type { TokenRun } from "../../../api/types";
import { heatLevel, STEPS, surpriseHeat } from "../../../ui/surprise";

export type Measure = "logprob" | "advantage" | "ratio" | "version" | "none";

export const MEASURES: { value: Measure; name: string }[] = [
  { value: "logprob", name: "Log-probability" },
  { value: "advantage", name: "Advantage" },
  { value: "ratio", name: "Ratio to the trainer" },
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
  /** Whether the trainer's log-probabilities are kept of any of them. */
  ratios: boolean;
}

/** By so much, up or down, a ratio has the strongest colour. */
export const STRONG_RATIO = 1.5;

/** exp(the trainer's log-probability before the step - the one it was sampled with); null where it is not kept. */
export function ratioAt(run: TokenRun, at: number): number | null {
  const [trainer, sampled] = [run.trainer_logprobs?.[at] ?? null, run.logprobs[at]];
  return trainer === null || sampled === undefined ? null : Math.exp(trainer - sampled);
}

/** Good where the trainer found the token likelier than it was sampled, bad where less likely; none near 1. */
export function ratioHeat(ratio: number | null | undefined): string | undefined {
  if (ratio === null || ratio === undefined) return undefined;
  return heatLevel(ratio > 1 ? "g" : "b", Math.abs(Math.log(ratio)) / Math.log(STRONG_RATIO));
}

export function scaleOf(runs: TokenRun[]): Scale {
  const sampled = runs.filter((run) => run.call !== null);
  return {
    advantage: Math.max(0, ...sampled.map((run) => Math.abs(run.advantage ?? 0))),
    versions: [...new Set(sampled.flatMap((run) => run.policy_versions))].sort((one, other) => one - other),
    ratios: sampled.some((run) => run.trainer_logprobs !== null),
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
  if (measure === "ratio") return ratioHeat(ratioAt(run, at));
  if (measure === "version") return `v${String(Math.max(0, scale.versions.indexOf(run.policy_versions[at] ?? -1)) % STEPS)}`;
  return undefined;
}
