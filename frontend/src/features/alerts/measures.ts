// What a step measures, in words, and what a rule says.
import { OWN } from "../../api/metrics";
import type { MetricRule, StepMetrics } from "../../api/types";
import { number } from "../../ui/format";

/** Every measure that a rule may be on. */
export const MEASURES: Record<
  Exclude<
    keyof StepMetrics,
    "step" | "metrics" | "engine_gap_by_position" | "engine_gap_by_probability"
  >,
  string
> = {
  reward_mean: "Reward, mean",
  reward_std: "Reward, standard deviation",
  reward_p10: "Reward, 10th percentile",
  reward_p50: "Reward, median",
  reward_p90: "Reward, 90th percentile",
  loss: "Loss",
  grad_norm: "Gradient norm",
  learning_rate: "Learning rate",
  kl_engine: "KL from engine to trainer",
  engine_gap_mean: "Gap of engine and trainer, mean",
  engine_gap_p50: "Gap of engine and trainer, median",
  engine_gap_p90: "Gap of engine and trainer, 90th percentile",
  engine_gap_p99: "Gap of engine and trainer, 99th percentile",
  engine_gap_max: "Gap of engine and trainer, highest",
  engine_gap_far: "Share of tokens more than 1 nat apart",
  tokens_masked: "Tokens left out for their gap",
  kl_before: "KL from the policy before the step",
  kl_reference: "KL to the reference",
  entropy: "Entropy",
  entropy_coef: "Entropy coefficient",
  kl_coef: "KL coefficient",
  clip_fraction: "Clipped share of tokens",
  expert_load: "Busiest expert over the mean",
  router_entropy: "Entropy of the routers",
  routing_differs: "Replayed experts that differ",
  completion_length_mean: "Completion length",
  answers_distinct: "Spread of the answers within groups",
  truncated: "Answers cut off, share",
  grammars_lost: "Answers whose grammar was lost",
  episodes: "Episodes",
  groups: "Groups",
  groups_skipped: "Groups skipped",
  groups_level: "Groups of equal rewards",
  groups_replaced: "Groups replaced",
  updates: "Optimizer updates",
  tokens_trained: "Tokens trained",
  tokens_computed: "Tokens computed",
  tokens_repeated: "Repeated prefixes",
  staleness_max: "Staleness, highest",
  rollout_s: "Seconds of sampling",
  train_s: "Seconds of training",
  handover_s: "Seconds of the weights’ hand-over",
};

/** A measure that this console does not know yet has its own name. */
export function measureName(metric: string): string {
  return (
    Object.entries(MEASURES).find(([name]) => name === metric)?.[1] ??
    (metric.startsWith(OWN) ? metric.slice(OWN.length) : metric)
  );
}

export function ruleText({
  metric,
  above,
  value,
  steps,
}: Pick<MetricRule, "metric" | "above" | "value" | "steps">): string {
  return `${measureName(metric)} ${above ? "above" : "below"} ${number(value)} ${steps === 1 ? "in one step" : `in ${String(steps)} steps in a row`}`;
}
