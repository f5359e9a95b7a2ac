// What is drawn of a run: every measure of a step, the five that matter first, the others in groups that open.
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

/** Beside the reward, which is drawn with the rewards of evaluations. */
export const MAIN: readonly Plot[] = [
  { title: "Loss", lines: [["loss", "loss", "--series-2"]] },
  { title: "KL engine to trainer", lines: [["KL", "kl_engine"]] },
  { title: "Entropy", unit: "nats per token", lines: [["entropy", "entropy"]] },
  { title: "Answer length", unit: "tokens, mean", lines: [["length", "completion_length_mean"]] },
];

/** Its plots are made of what the agents of a run measured themselves. */
export const OWN_GROUP: PlotGroup = { key: "own", title: "Measured by the agent", plots: [] };

export const GROUPS: readonly PlotGroup[] = [
  OWN_GROUP,
  {
    key: "policy",
    title: "Policy",
    plots: [
      { title: "Clipped tokens", unit: "share", lines: [["clipped", "clip_fraction"]] },
      { title: "Busiest expert over the mean", unit: "times", lines: [["load", "expert_load"]] },
      { title: "Entropy of the routers", unit: "nats", lines: [["entropy", "router_entropy"]] },
      {
        title: "Replayed experts that differ",
        unit: "share",
        lines: [["differ", "routing_differs"]],
      },
      {
        title: "Gap of engine and trainer",
        unit: "nats",
        lines: [
          ["median", "engine_gap_p50"],
          ["90 %", "engine_gap_p90", "--series-2"],
          ["99 %", "engine_gap_p99", "--series-3"],
        ],
      },
      {
        title: "Largest gap",
        unit: "nats",
        lines: [
          ["gap", "engine_gap_max"],
          ["mean", "engine_gap_mean", "--series-2"],
        ],
      },
      { title: "Tokens more than 1 nat apart", unit: "share", lines: [["far", "engine_gap_far"]] },
      {
        title: "Tokens left out for their gap",
        unit: "tokens",
        lines: [["left out", "tokens_masked"]],
      },
      {
        title: "KL within the step",
        unit: "k3, from before the step",
        lines: [["KL", "kl_before"]],
      },
    ],
  },
  {
    key: "optimizer",
    title: "Optimizer",
    plots: [
      { title: "Gradient norm", lines: [["norm", "grad_norm"]] },
      { title: "Learning rate", lines: [["rate", "learning_rate"]] },
      { title: "Updates", unit: "in the step", lines: [["updates", "updates"]] },
      {
        title: "KL to the reference",
        unit: "k3, nats per token",
        lines: [["KL", "kl_reference"]],
      },
      {
        title: "Weight of the KL term",
        unit: "in the loss or the reward",
        lines: [["weight", "kl_coef"]],
      },
      { title: "Weight of the entropy", unit: "in the loss", lines: [["weight", "entropy_coef"]] },
    ],
  },
  {
    key: "answers",
    title: "Answers",
    plots: [
      { title: "Answers cut off", unit: "share, by max_tokens", lines: [["cut off", "truncated"]] },
      {
        title: "Spread of the answers",
        unit: "share, within groups",
        lines: [["distinct", "answers_distinct"]],
      },
      { title: "Required form lost", unit: "answers", lines: [["answers", "grammars_lost"]] },
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
          ["alike but for the KL term or length", "groups_level", "--series-4"],
        ],
      },
      { title: "Episodes", lines: [["episodes", "episodes"]] },
      {
        title: "Tokens",
        lines: [
          ["trained", "tokens_trained"],
          ["computed", "tokens_computed", "--series-2"],
          ["repeated", "tokens_repeated", "--series-3"],
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
      {
        title: "Tokens per second",
        unit: "trained, over the whole step",
        lines: [["tokens/s", tokensPerSecond]],
      },
    ],
  },
];

/** A plot for each measure of the agents' own, the parts of the reward first. */
export function ownPlots(names: readonly string[]): Plot[] {
  const plots = names.map((name): Plot => ({
    ...ownTitle(name),
    lines: [[name, `metrics/${name}`]],
  }));
  const rank = ({ unit = "" }: Plot) => (unit === "mean of the episodes" ? 1 : 0);
  return plots.sort((one, other) => rank(one) - rank(other));
}

function ownTitle(name: string): { title: string; unit: string } {
  const [kind, ...rest] = name.split("/");
  if (kind === "reward" && rest.length > 0)
    return { title: rest.join("/"), unit: "part of the reward" };
  if (kind === "rewards_by_agent" && rest.length > 0)
    return { title: rest.join("/"), unit: "reward of the agent" };
  return { title: name, unit: "mean of the episodes" };
}
