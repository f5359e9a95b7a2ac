// Which colour a token has under the chosen measure: a few steps of one, so that thousands of spans share their styles.
import type { TokenRun } from "../../../api/types";
import { heatLevel, STEPS, surpriseHeat } from "../../../ui/surprise";

export type Measure = "logprob" | "advantage" | "ratio" | "change" | "loss" | "version" | "none";

export const MEASURES: { value: Measure; name: string }[] = [
  { value: "logprob", name: "Log-probability" },
  { value: "advantage", name: "Advantage" },
  { value: "ratio", name: "Ratio to the trainer" },
  { value: "change", name: "Change by the step" },
  { value: "loss", name: "Share of the loss" },
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
  /** The largest size of a change by the step; null where none is kept. */
  change: number | null;
  /** The largest size of a part of the loss; null where no token has one. */
  loss: number | null;
  /** The sum of all of these sizes; null until the whole episode is loaded. */
  lossInAll: number | null;
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

/** The trainer's log-probability after the step - before it; null where one of them is not kept. */
export function changeAt(run: TokenRun, at: number): number | null {
  const [before, after] = [
    run.trainer_logprobs?.[at] ?? null,
    run.trainer_logprobs_after?.[at] ?? null,
  ];
  return before === null || after === null ? null : after - before;
}

/** Good where the step made the token likelier, bad where less likely; as strong as it is beside the largest change. */
export function changeHeat(
  change: number | null | undefined,
  largest: number | null,
): string | undefined {
  if (change === null || change === undefined || !largest) return undefined;
  return heatLevel(change > 0 ? "g" : "b", Math.abs(change) / largest);
}

/**
 * What a token weighs in the loss of its step: advantage times ratio, as the gradient of its log-probability has it before
 * clipping (PPO, Schulman et al. 2017, section 3). Null of a token that no step trained, or whose ratio is not kept.
 */
export function lossPartAt(run: TokenRun, at: number): number | null {
  const ratio = ratioAt(run, at);
  return run.call === null || run.advantage === null || ratio === null
    ? null
    : run.advantage * ratio;
}

/** Its size among those of all tokens of the episode, from 0 to 1; null while these are not known. */
export function lossShareAt(run: TokenRun, at: number, { lossInAll: all }: Scale): number | null {
  const part = lossPartAt(run, at);
  return part === null || all === null || all === 0 ? null : Math.abs(part) / all;
}

/** Good where the loss makes the token likelier, bad where less likely; as strong as it is beside the largest part. */
export function lossHeat(part: number | null, largest: number | null): string | undefined {
  return part === null || part === 0 || !largest
    ? undefined
    : heatLevel(part > 0 ? "g" : "b", Math.abs(part) / largest);
}

/** The largest size of some numbers; null where none of them is known. */
export function largestOf(values: (number | null)[]): number | null {
  return values.reduce(
    (known, value) => (value === null ? known : Math.max(known ?? 0, Math.abs(value))),
    null,
  );
}

/** `isWhole`: whether these are all runs of the episode. */
export function scaleOf(runs: TokenRun[], isWhole = false): Scale {
  const sampled = runs.filter((run) => run.call !== null);
  const parts = sampled.flatMap((run) => run.logprobs.map((_, at) => lossPartAt(run, at)));
  return {
    loss: largestOf(parts),
    lossInAll: isWhole ? parts.reduce<number>((sum, part) => sum + Math.abs(part ?? 0), 0) : null,
    advantage: Math.max(0, ...sampled.map((run) => Math.abs(run.advantage ?? 0))),
    versions: [...new Set(sampled.flatMap((run) => run.policy_versions))].sort(
      (one, other) => one - other,
    ),
    ratios: sampled.some((run) => run.trainer_logprobs !== null),
    change: largestOf(
      sampled.map((run) =>
        largestOf((run.trainer_logprobs_after ?? []).map((_, at) => changeAt(run, at))),
      ),
    ),
  };
}

/** The value of `data-heat` (styles.css): "s1" to "s5" for surprise, "g…" and "b…" for good and bad, "v0" to "v4", or none. */
export function heatOf(
  run: TokenRun,
  at: number,
  measure: Measure,
  scale: Scale,
): string | undefined {
  if (run.call === null) return undefined;
  if (measure === "logprob") return surpriseHeat(run.logprobs[at]);
  if (measure === "advantage") {
    if (run.advantage === null || scale.advantage === 0) return undefined;
    return heatLevel(run.advantage > 0 ? "g" : "b", Math.abs(run.advantage) / scale.advantage);
  }
  if (measure === "ratio") return ratioHeat(ratioAt(run, at));
  if (measure === "change") return changeHeat(changeAt(run, at), scale.change);
  if (measure === "loss") return lossHeat(lossPartAt(run, at), scale.loss);
  if (measure === "version")
    return `v${String(Math.max(0, scale.versions.indexOf(run.policy_versions[at] ?? -1)) % STEPS)}`;
  return undefined;
}
