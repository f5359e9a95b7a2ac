// The rules of alerts, in words.
import type { AlertRule } from "../api/types";

const NAMES: Record<AlertRule, string> = {
  reward_collapse: "Reward collapsed",
  entropy_collapse: "Entropy collapsed",
  length_blowup: "Completions grew long",
  kl: "Policy moved far",
  engine_gap: "Engine and trainer differ",
  truncated: "Answers cut off",
  equal_rewards: "Equal rewards",
  episodes_dropped: "Episodes dropped",
  stuck: "Stuck",
  restarted: "Restarted",
  failed: "Failed",
  checkpoint_failed: "Checkpoint failed",
  disk: "Disk",
  budget: "Budget",
  metric_rule: "Rule of the project",
};

export function alertName(rule: AlertRule): string {
  return NAMES[rule];
}
