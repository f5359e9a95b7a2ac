// Which options stand where in the form. What is new in the schema and not named here still appears, under "Other".
import schema from "../../../api/session-config.json";
import { configFields, type ConfigField, type OptionSchema } from "../config-fields";

export interface FieldGroup {
  title: string;
  names: string[];
}

export const MAIN_GROUPS: FieldGroup[] = [
  { title: "Batches", names: ["grpo_n", "tasks_per_batch", "max_steps", "max_staleness"] },
  { title: "Optimizer", names: ["learning_rate", "loss", "warmup_steps", "seed"] },
  { title: "Generation", names: ["max_context_length", "max_tokens", "temperature"] },
];

const ADVANCED_GROUPS: FieldGroup[] = [
  {
    title: "Calls of agents",
    names: [
      "unsupported_sampling",
      "unsupported_effort",
      "text_marks",
      "tool_parsing",
      "model_names",
    ],
  },
  { title: "Loss", names: ["clip_low", "clip_high", "dual_clip", "dro_beta"] },
  {
    title: "Correction of the engine",
    names: ["weight", "weight_low", "weight_high", "mask", "mask_low", "mask_high", "veto"].map(
      (name) => `engine_correction.${name}`,
    ),
  },
  {
    title: "KL and entropy",
    names: [
      "kl_coef",
      "kl_in",
      "kl_estimator",
      "reference_decay",
      "kl_base_coef",
      "entropy_coef",
      "entropy_target",
    ],
  },
  {
    title: "Updates of a step",
    names: ["minibatches", "epochs", "kl_stop", "logprobs_after_step"],
  },
  {
    title: "Rewards and advantages",
    names: [
      "normalize_advantage",
      "advantage_baseline",
      "call_discount",
      "keep_n",
      "length_penalty",
      "overlong_buffer",
      "mask_truncated",
      "train_calls_without_tools",
    ],
  },
  { title: "Groups", names: ["dynamic_sampling", "group_timeout_s"] },
  {
    title: "Schedule and AdamW",
    names: [
      "lr_schedule",
      "lr_min_ratio",
      "grad_clip",
      "grad_norm_limit",
      "weight_decay",
      "adam_beta1",
      "adam_beta2",
      "adam_eps",
    ],
  },
  { title: "LoRA", names: ["lora_rank", "lora_alpha", "lora_targets"] },
  {
    title: "Trainer",
    names: [
      "place",
      "placement",
      "trainer_ranks",
      "nodes",
      "sequence_parallel",
      "devices",
      "dtype",
      "zero_stage",
      "router",
      "routing_replay",
      "offload_optimizer",
      "micro_batch_tokens",
      "gradient_checkpointing",
      "offload_activations",
    ],
  },
  {
    title: "Storage and clocks",
    names: [
      "checkpoint_every_steps",
      "journal_interval_s",
      "episode_idle_timeout_s",
      "episode_timeout_s",
      "idle_suspend_s",
    ],
  },
];

export function advancedGroups(fields: ConfigField[]): FieldGroup[] {
  const placed = new Set([...MAIN_GROUPS, ...ADVANCED_GROUPS].flatMap((group) => group.names));
  const other = fields.map((field) => field.name).filter((name) => !placed.has(name));
  return other.length > 0
    ? [...ADVANCED_GROUPS, { title: "Other", names: other }]
    : ADVANCED_GROUPS;
}

export const FIELDS = configFields(schema as unknown as OptionSchema);
export const ADVANCED = advancedGroups(FIELDS);
