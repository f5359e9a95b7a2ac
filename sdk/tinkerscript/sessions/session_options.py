"""The options of TinkerScript(...) for type checkers; written by sdk/write_session_options.py."""

from typing import Literal, TypedDict


class EngineCorrectionOptions(TypedDict, total=False):
    """The fields of engine_correction; none must be given.

    Bounds and defaults: EngineCorrection.
    """

    weight: Literal["none", "token", "sequence", "geometric"]
    weight_low: float | None
    weight_high: float
    mask: Literal["none", "token", "sequence", "geometric"]
    mask_low: float | None
    mask_high: float | None
    veto: float | None


class SessionOptions(TypedDict, total=False):
    """Every option of a session; none must be given.

    Bounds and defaults: SessionConfig.
    """

    unsupported_sampling: Literal["refuse", "eval_only"]
    unsupported_effort: Literal["label", "refuse"]
    text_marks: Literal["text", "tokens"]
    tool_parsing: Literal["lenient", "strict"]
    seed: int
    grpo_n: int
    tasks_per_batch: int
    max_steps: int | None
    max_staleness: int
    dynamic_sampling: bool
    group_timeout_s: float | None
    learning_rate: float | None
    warmup_steps: int
    lr_schedule: Literal["constant", "linear", "cosine"]
    lr_min_ratio: float
    adam_beta1: float
    adam_beta2: float
    adam_eps: float
    weight_decay: float
    grad_clip: float
    grad_norm_limit: float
    minibatches: int
    epochs: int
    kl_stop: float | None
    loss: Literal[
        "grpo",
        "dr_grpo",
        "dapo",
        "gspo",
        "cispo",
        "ppo",
        "importance_sampling",
        "dro",
        "cross_entropy",
    ]
    engine_correction: EngineCorrectionOptions
    clip_low: float | None
    clip_high: float | None
    dual_clip: float | None
    dro_beta: float
    kl_coef: float
    kl_in: Literal["loss", "reward"]
    kl_estimator: Literal["k2", "k3"]
    reference_decay: float | None
    kl_base_coef: float
    normalize_advantage: bool | None
    advantage_baseline: Literal["group", "leave_one_out", "batch"]
    keep_n: int | None
    length_penalty: float
    call_discount: float
    entropy_coef: float
    entropy_target: float | None
    max_context_length: int
    max_tokens: int
    temperature: float
    mask_truncated: bool
    train_calls_without_tools: bool
    overlong_buffer: int
    model_names: Literal["own", "any"] | dict[str, str]
    logprobs_after_step: bool
    lora_rank: int
    lora_alpha: float
    lora_targets: Literal["all-linear", "attention", "mlp"]
    router: Literal["trained", "frozen"]
    routing_replay: bool
    zero_stage: Literal[1, 2, 3]
    offload_optimizer: bool
    trainer_ranks: int
    nodes: int
    sequence_parallel: bool
    placement: Literal["auto", "shared", "split"]
    devices: int | None
    place: str
    dtype: Literal["auto", "float32", "bfloat16"]
    micro_batch_tokens: int
    gradient_checkpointing: bool
    offload_activations: bool
    checkpoint_every_steps: int
    journal_interval_s: float
    episode_idle_timeout_s: float
    episode_timeout_s: float
    idle_suspend_s: float
