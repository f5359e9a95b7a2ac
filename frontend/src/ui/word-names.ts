// Which words of the pages are explained: by the entry of words.ts, as they stand there.
const WRITTEN = {
  reward:
    "Reward|Rewards|Reward, mean|Reward, last|Reward, best|Rewards by agent|Rewards by call|Mean reward",
  episode: "Episode|Episodes|Last episodes",
  task: "Task|Tasks",
  step: "Step|Steps|Optimizer steps|Trained in",
  batch: "Batches|Tasks × attempts",
  call: "Call|Calls",
  runtime: "Runtime|Runtimes|Warm runtimes",
  max_tokens: "Max tokens",
  token: "Token|Sampled tokens|Tokens",
  lora: "Trains",
  checkpoint: "Checkpoints|Stored checkpoints",
  evaluation: "Evaluations|Evaluation, last",
  spread: "Spread",
  advantage: "Advantage|Advantages",
  ratio: "Ratio|Ratios",
  loss_part: "Part of the loss|Share of the loss",
  loss: "Loss|Loss by token",
  kl_engine: "KL|KL engine to trainer|KL of the engine",
  kl_step: "KL within the step",
  gap: "Gap of engine and trainer|Largest gap|Tokens more than 1 nat apart",
  left_out: "Tokens left out for their gap",
  repeated: "Repeated prefixes",
  entropy: "Entropy",
  entropy_weight: "Weight of the entropy",
  kl_weight: "Weight of the KL term",
  expert_load: "Busiest expert over the mean",
  router_entropy: "Entropy of the routers",
  routing_differs: "Replayed experts that differ",
  length: "Answer length|Completion length|Length",
  cut_off: "Cut off|Answers cut off",
  clipped: "Clipped|Clipped tokens",
  grad_norm: "Gradient norm|Grad norm",
  learning_rate: "Learning rate",
  updates: "Updates",
  distinct: "Spread of the answers",
  grammars: "Required form lost",
  group: "Groups",
  equal: "Equal groups",
  staleness: "Staleness",
  policy: "Samples",
  version: "Policy version|Version|Versions",
  step_time: "Step time|Training time|Took|Rollout, s|Training, s",
  speed: "Tokens per second",
  fate: "Fate",
  timeline: "Timelines|Merging",
  drift: "Drift",
  logprob: "Mean log-prob.|Log-probability|Probability",
  raw_logprob: "Raw log-probability|Raw probability",
  trainer_logprob: "Trainer’s log-probability",
  change: "… after the step|Change by the step",
  tokens_trained: "Tokens trained",
  tokens_computed: "Tokens computed",
};

const KEYS = new Map(
  Object.entries(WRITTEN).flatMap(([key, words]) => words.split("|").map((word) => [word, key])),
);

/** The key of the entry; null for a word that needs none. */
export function wordKey(text: string): string | null {
  return KEYS.get(text) ?? null;
}

export const wordKeys = (): string[] => Object.keys(WRITTEN);
