"""What a user may set about a session. Every field is wired; every default has its reason beside it."""

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from .base import Request

LossName = Literal[
    "grpo", "dr_grpo", "dapo", "gspo", "cispo", "ppo", "importance_sampling", "dro", "cross_entropy"
]  # fmt: skip

# Which options a loss uses. The others must keep their defaults beside it: no option is accepted that does nothing.
CLIPPED_LOSSES = ("grpo", "dr_grpo", "dapo", "ppo", "gspo", "cispo")
TRUNCATABLE_LOSSES = ("grpo", "dr_grpo", "dapo", "ppo", "importance_sampling")


class SessionConfig(Request):
    """The options of a training session. Bounds are checked when the session is created.

    Lengths are in tokens, times in seconds, sizes in episodes or groups as named.
    """

    seed: int = Field(
        0, ge=0, lt=2**31, description="One seed for sampling order, batches, initial noise and new LoRA weights."
    )

    grpo_n: int = Field(8, ge=2, le=256, description="Episodes per group: attempts at one task that share a baseline.")
    tasks_per_batch: int = Field(4, ge=1, le=1024, description="Groups per step.")
    max_steps: int | None = Field(None, ge=1, description="Stop training after this many steps; none means no limit.")
    max_staleness: int = Field(
        0, ge=0, le=16, description="How many versions old an episode may be when trained; 0 is strictly on-policy."
    )

    learning_rate: float = Field(
        2e-5,
        gt=0,
        le=1e-2,
        description="AdamW peak learning rate (all weights: 1e-6 to 5e-5; LoRA: ten times as much).",
    )
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    # Constant: what GRPO, DAPO and Dr. GRPO were published with, and what a run without a known end needs.
    lr_schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="From the peak down to its minimum at max_steps, which must then be set."
    )
    # A tenth: Hoffmann et al. 2022 (arXiv:2203.15556), appendix B; Llama 2 and 3 did the same.
    lr_min_ratio: float = Field(0.1, ge=0, le=1, description="Where a schedule ends, as a part of the peak.")
    # Kingma and Ba 2015 (arXiv:1412.6980), section 2; also the defaults of torch.optim.AdamW.
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: decay of the mean of gradients.")
    adam_beta2: float = Field(0.999, ge=0, lt=1, description="AdamW: decay of the mean of squared gradients.")
    adam_eps: float = Field(1e-8, gt=0, le=1e-2, description="AdamW: added to the root of the second moment.")
    # None: a run of RL takes few steps, and what should hold a policy near its base is the KL term.
    weight_decay: float = Field(0.0, ge=0, le=1.0, description="AdamW: decoupled weight decay.")
    # 1: as GRPO was published (arXiv:2402.03300) and as TRL and verl ship.
    grad_clip: float = Field(1.0, gt=0, description="Maximum global gradient norm.")
    # A thousand times the clip: what is left of such a gradient is a direction that a few tokens dictate.
    grad_norm_limit: float = Field(
        1000.0,
        gt=0,
        validate_default=True,  # beside a large grad_clip the default is refused too, now and not when it is read again
        description="A step whose gradient norm, before the clip, is above this is refused.",
    )

    loss: LossName = Field("grpo", description="Policy loss. cross_entropy: log-probabilities weighted by advantage.")
    # None: an on-policy step has nothing to correct, and a loss with a clip corrects by it. 2: verl and TRL.
    tis_cap: float | None = Field(
        None,
        ge=1,
        le=100,
        description="Truncated importance sampling: stale or mismatched tokens weigh min(trainer / engine, this), "
        "in place of the clip; 2 is usual. None: the loss's own ratio to the engine, clipped.",
    )
    clip_low: float = Field(0.2, gt=0, lt=1, description="Ratio clip below 1 (PPO: 0.2; GSPO: 3e-4).")
    clip_high: float = Field(
        0.2, gt=0, le=10, description="Ratio clip above 1 (PPO: 0.2; DAPO: 0.28; GSPO: 4e-4; CISPO: 3)."
    )
    dro_beta: float = Field(0.05, gt=0, le=10, description="DRO: weight of the squared log-ratio (Tinker: 0.05).")
    kl_coef: float = Field(0.0, ge=0, le=1, description="Weight of the k3 KL to the base model; 0 loads no reference.")
    normalize_advantage: bool = Field(True, description="Divide group advantages by their standard deviation.")

    max_context_length: int = Field(2048, ge=16, le=1_048_576, description="Prompt plus answer of one call, in tokens.")
    max_tokens: int = Field(256, ge=1, description="Answer length when a call does not say.")
    temperature: float = Field(1.0, ge=0, le=2, description="Sampling temperature when a call does not say.")

    lora_rank: int = Field(0, ge=0, le=1024, description="Rank of LoRA adapters; 0 trains every weight.")
    # 32, whatever the rank: Schulman et al. 2025, "LoRA Without Regret"; the best rate then hardly depends on the rank.
    lora_alpha: float = Field(32.0, gt=0, le=4096, description="LoRA: an adapter counts alpha / rank times.")
    lora_targets: Literal["all-linear", "attention", "mlp"] = Field(
        "all-linear", description="LoRA: which linear layers get an adapter."
    )

    zero_stage: Literal[1, 2, 3] = Field(2, description="DeepSpeed ZeRO stage.")
    offload_optimizer: bool = Field(
        False, description="Keep AdamW's moments in host memory. On a CPU, where they are there already, refused."
    )
    trainer_ranks: int = Field(1, ge=1, le=64, description="Trainer processes (one per device).")
    placement: Literal["auto", "shared", "split"] = Field(
        "auto",
        description="Engine and trainer on one GPU, by turns (shared), or each on its own (split); auto: split where "
        "there are enough. On a CPU, where both use all of it, only auto.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="auto: float32 on CPU, bfloat16 on GPU.")
    micro_batch_tokens: int = Field(4096, ge=64, description="Tokens per forward/backward pass; bounds memory.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations in the backward pass.")

    checkpoint_every_steps: int = Field(10, ge=1, description="Steps between `state` checkpoints.")
    journal_interval_s: float = Field(
        60.0, ge=1, le=3600, description="Seconds between copies of the journal to the store."
    )
    episode_idle_timeout_s: float = Field(
        600.0, ge=1, le=86_400, description="An episode with no call or heartbeat expires."
    )
    episode_timeout_s: float = Field(
        3600.0, ge=1, le=604_800, description="An episode expires after this, whatever it does."
    )
    idle_suspend_s: float = Field(
        3600.0, ge=10, le=604_800, description="A session with no episode suspends after this."
    )

    # An option that another one makes meaningless is refused by its own name, so that a form can mark it. Each looks
    # only at fields declared above its own: those are the ones that have been checked by then.

    @field_validator("lr_schedule")
    @classmethod
    def _schedule_has_an_end(cls, value: str, info: ValidationInfo) -> str:
        if value == "constant":
            return value
        last, warmup = info.data.get("max_steps"), info.data.get("warmup_steps", 0)
        if last is None:
            raise ValueError(f"{value} needs max_steps: it says where the schedule ends")
        if warmup >= last:
            raise ValueError(f"{value} never begins: warmup_steps ({warmup}) must be below max_steps ({last})")
        return value

    @field_validator("grad_norm_limit")
    @classmethod
    def _limit_leaves_something_to_clip(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("grad_clip", 0.0):
            raise ValueError("must not be below grad_clip: every gradient that the clip is for would be refused")
        return value

    @field_validator("lr_min_ratio")
    @classmethod
    def _minimum_needs_a_schedule(cls, value: float, info: ValidationInfo) -> float:
        return _useful(
            value, info, info.data.get("lr_schedule") != "constant", "only with lr_schedule linear or cosine"
        )

    @field_validator("tis_cap")
    @classmethod
    def _truncation_needs_a_ratio(cls, value: float | None, info: ValidationInfo) -> float | None:
        usable = info.data.get("loss", "grpo") in TRUNCATABLE_LOSSES
        return _useful(value, info, usable, f"only with loss {', '.join(TRUNCATABLE_LOSSES)}")

    @field_validator("clip_low", "clip_high")
    @classmethod
    def _clip_needs_a_ratio(cls, value: float, info: ValidationInfo) -> float:
        value = _useful(
            value, info, info.data.get("loss", "grpo") in CLIPPED_LOSSES, f"only with loss {', '.join(CLIPPED_LOSSES)}"
        )
        # One update per batch: the ratio to the trainer's own policy before the step is 1, which no clip cuts.
        return _useful(value, info, info.data.get("tis_cap") is None, "not with tis_cap, which takes the clip's place")

    @field_validator("dro_beta")
    @classmethod
    def _beta_is_of_dro(cls, value: float, info: ValidationInfo) -> float:
        return _useful(value, info, info.data.get("loss", "dro") == "dro", "only with loss dro")

    @field_validator("lora_alpha", "lora_targets")
    @classmethod
    def _adapters_need_a_rank(cls, value: Any, info: ValidationInfo) -> Any:
        return _useful(value, info, info.data.get("lora_rank", 1) > 0, "only with a lora_rank above 0")


def _useful(value: Any, info: ValidationInfo, condition: bool, when: str) -> Any:
    # The default passes everywhere: a stored configuration holds every field.
    if not condition and value != SessionConfig.model_fields[str(info.field_name)].default:
        raise ValueError(f"has an effect {when}")
    return value
