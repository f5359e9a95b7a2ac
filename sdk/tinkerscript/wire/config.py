"""What a user may set about a session. Every field is wired; every default has its reason beside it."""

from typing import Literal

from pydantic import Field

from .base import Request

LossName = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "ppo", "importance_sampling"]


class SessionConfig(Request):
    """The options of a training session. Bounds are checked when the session is created.

    Lengths are in tokens, times in seconds, sizes in episodes or groups as named.
    """

    seed: int = Field(0, ge=0, lt=2**31, description="One seed for sampling order, batches and initial noise.")

    grpo_n: int = Field(8, ge=2, le=256, description="Episodes per group: attempts at one task that share a baseline.")
    tasks_per_batch: int = Field(4, ge=1, le=1024, description="Groups per step.")
    max_steps: int | None = Field(None, ge=1, description="Stop training after this many steps; none means no limit.")
    max_staleness: int = Field(
        0, ge=0, le=16, description="How many versions old an episode may be when trained; 0 is strictly on-policy."
    )

    learning_rate: float = Field(
        2e-5, gt=0, le=1e-2, description="AdamW peak learning rate (full weights: 1e-6 to 5e-5)."
    )
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    weight_decay: float = Field(0.0, ge=0, le=1.0)
    grad_clip: float = Field(1.0, gt=0, description="Maximum global gradient norm.")
    loss: LossName = Field("grpo", description="Policy loss.")
    clip_low: float = Field(0.2, gt=0, lt=1, description="Ratio clip below 1 (PPO: 0.2).")
    clip_high: float = Field(0.2, gt=0, le=10, description="Ratio clip above 1 (DAPO clip-higher: 0.28).")
    kl_coef: float = Field(0.0, ge=0, le=1, description="Weight of the k3 KL to the base model; 0 loads no reference.")
    normalize_advantage: bool = Field(True, description="Divide group advantages by their standard deviation.")

    max_context_length: int = Field(2048, ge=16, le=1_048_576, description="Prompt plus answer of one call, in tokens.")
    max_tokens: int = Field(256, ge=1, description="Answer length when a call does not say.")
    temperature: float = Field(1.0, ge=0, le=2, description="Sampling temperature when a call does not say.")

    zero_stage: Literal[1, 2, 3] = Field(2, description="DeepSpeed ZeRO stage.")
    trainer_ranks: int = Field(1, ge=1, le=64, description="Trainer processes (one per device).")
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
