// What is drawn of a run: every measure of a step, in groups that fold.
import { tokensPerSecond, type Line } from "./step-columns";

export interface Plot {
  title: string;
  unit?: string;
  lines: Line[];
}

export interface PlotGroup {
  /** Its name in an address. */
  key: string;
  title: string;
  plots: Plot[];
}

/** With a band behind it, and beside the rewards of evaluations: drawn by itself. */
export const REWARD: Plot = { title: "Reward", unit: "mean, 10th to 90th percentile", lines: [["reward", "reward_mean"]] };

export const GROUPS: readonly PlotGroup[] = [
  { key: "reward", title: "Reward", plots: [] },
  {
    key: "policy",
    title: "Policy",
    plots: [
      { title: "Entropy", unit: "nats per token", lines: [["entropy", "entropy"]] },
      { title: "KL engine to trainer", lines: [["KL", "kl_engine"]] },
      { title: "Clipped tokens", unit: "share", lines: [["clipped", "clip_fraction"]] },
      { title: "KL within the step", unit: "k3, from before the step", lines: [["KL", "kl_before"]] },
    ],
  },
  {
    key: "optimizer",
    title: "Optimizer",
    plots: [
      { title: "Loss", lines: [["loss", "loss", "--series-2"]] },
      { title: "Gradient norm", lines: [["norm", "grad_norm"]] },
      { title: "Learning rate", lines: [["rate", "learning_rate"]] },
      { title: "Updates", unit: "in the step", lines: [["updates", "updates"]] },
      { title: "Weight of the entropy", unit: "in the loss", lines: [["weight", "entropy_coef"]] },
    ],
  },
  {
    key: "answers",
    title: "Answers",
    plots: [
      { title: "Completion length", unit: "tokens", lines: [["length", "completion_length_mean"]] },
      { title: "Answers cut off", unit: "share, by max_tokens", lines: [["cut off", "truncated"]] },
      { title: "Spread of the answers", unit: "share, within groups", lines: [["distinct", "answers_distinct"]] },
      { title: "Lost grammars", unit: "answers", lines: [["answers", "grammars_lost"]] },
    ],
  },
  {
    key: "batches",
    title: "Batches",
    plots: [
      {
        title: "Groups",
        lines: [
          ["all", "groups"],
          ["equal rewards", "groups_skipped", "--series-2"],
          ["set aside", "groups_replaced", "--series-3"],
        ],
      },
      { title: "Episodes", lines: [["episodes", "episodes"]] },
      {
        title: "Tokens",
        lines: [
          ["trained", "tokens_trained"],
          ["computed", "tokens_computed", "--series-2"],
        ],
      },
      { title: "Staleness", unit: "versions, oldest", lines: [["staleness", "staleness_max"]] },
    ],
  },
  {
    key: "speed",
    title: "Speed",
    plots: [
      {
        title: "Step time",
        unit: "s",
        lines: [
          ["rollout", "rollout_s"],
          ["train", "train_s", "--series-2"],
          ["handover", "handover_s", "--series-3"],
        ],
      },
      { title: "Tokens per second", unit: "trained, over the whole step", lines: [["tokens/s", tokensPerSecond]] },
    ],
  },
];
