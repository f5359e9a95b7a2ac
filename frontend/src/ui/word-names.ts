// Which words of the pages are explained: as they stand there, and by what entry of words.ts.
const NAMES: Record<string, string> = {
  Reward: "reward",
  "Reward, mean": "reward",
  Spread: "spread",
  Advantage: "advantage",
  Loss: "loss",
  "Loss by token": "loss",
  KL: "kl_engine",
  "KL engine to trainer": "kl_engine",
  "KL of the engine": "kl_engine",
  "KL within the step": "kl_step",
  "Gap of engine and trainer": "gap",
  "Largest gap": "gap",
  "Tokens more than 1 nat apart": "gap",
  "Tokens left out for their gap": "left_out",
  "Repeated prefixes": "repeated",
  Entropy: "entropy",
  "Weight of the entropy": "entropy_weight",
  "Weight of the KL term": "kl_weight",
  "Answer length": "length",
  "Cut off": "cut_off",
  "Answers cut off": "cut_off",
  Clipped: "clipped",
  "Clipped tokens": "clipped",
  "Gradient norm": "grad_norm",
  "Grad norm": "grad_norm",
  "Learning rate": "learning_rate",
  Updates: "updates",
  "Spread of the answers": "distinct",
  "Lost grammars": "grammars",
  Groups: "group",
  "Equal groups": "equal",
  Staleness: "staleness",
  Samples: "policy",
  "Policy version": "version",
  Version: "version",
  Versions: "version",
  "Step time": "step_time",
  "Tokens per second": "speed",
  Fate: "fate",
  Timelines: "timeline",
  "Mean log-prob.": "logprob",
  "Tokens trained": "tokens_trained",
  "Tokens computed": "tokens_computed",
};

/** The key of the entry; null for a word that needs none. */
export function wordKey(text: string): string | null {
  return Object.hasOwn(NAMES, text) ? (NAMES[text] ?? null) : null;
}

export const wordKeys = (): string[] => [...new Set(Object.values(NAMES))];
