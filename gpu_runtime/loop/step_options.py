"""What each step of the managed loop has of its own: AdamW at the rate of its schedule, and the
weights of the terms that are added to its loss. No torch in here.
"""

import math

from gpu_runtime.model_interfaces import AdamParams, LossConfig, Trainer
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.defaults import config_resolve

ENTROPY_STEP, MOST_ENTROPY = 0.005, 1.0  # as TRL 1.16 has them


async def step_adam(trainer: Trainer, config: SessionConfig, step: int) -> AdamParams:
    """As ``loop_adam``; where the session has no rate, at the default of the model's size."""
    size = await trainer.parameters() if config.learning_rate is None else None
    return loop_adam(config_resolve(config, size), step)


def learning_rate(config: SessionConfig, step: int) -> float:
    """lr(step) = peak * min(1, step / (warmup + 1)) * fall(p); ``step`` is 1-based.

    p in [0, 1) is the part of the steps between warm-up and ``max_steps`` that came before this
    one. With m = ``lr_min_ratio``: constant 1; linear 1 - (1-m) p; cosine m + (1-m) (1 + cos(pi p))
    / 2, which is Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5, without restarts. The first
    step after warm-up has the peak, a step at ``max_steps`` + 1 would have the minimum.

    A pure function of the step, so that a resumed run needs no scheduler state.
    """
    assert config.learning_rate is not None, "filled in by step_adam"
    warm = min(1.0, step / (config.warmup_steps + 1))
    return config.learning_rate * warm * _fall(config, step)


def loop_adam(config: SessionConfig, step: int) -> AdamParams:
    """AdamW of this step, by the session's options."""
    return AdamParams(
        learning_rate=learning_rate(config, step),
        beta1=config.adam_beta1,
        beta2=config.adam_beta2,
        eps=config.adam_eps,
        weight_decay=config.weight_decay,
        grad_clip_norm=config.grad_clip,
    )


def _fall(config: SessionConfig, step: int) -> float:
    if config.lr_schedule == "constant":
        return 1.0
    assert config.max_steps is not None, "SessionConfig demands it of a schedule"
    passed = max(0.0, (step - 1 - config.warmup_steps) / (config.max_steps - config.warmup_steps))
    left = (1 + math.cos(math.pi * passed)) / 2 if config.lr_schedule == "cosine" else 1 - passed
    return config.lr_min_ratio + (1 - config.lr_min_ratio) * left


def loss_settings(config: SessionConfig) -> LossConfig:
    """The options that a session can have otherwise at each step, for its loss."""
    return {"kl_coef": config.kl_coef, "entropy_coef": config.entropy_coef}


def next_entropy_coef(coef: float, entropy: float, target: float) -> float:
    """The weight after a step whose policy had ``entropy`` (nats): coef + 0.005 below the target,
    else coef - 0.005.

    Within 0 and 1. Source: He et al. 2025, "Skywork Open Reasoner 1", arXiv:2505.22312, section
    3.2.
    """
    moved = coef + ENTROPY_STEP if entropy < target else coef - ENTROPY_STEP
    return min(MOST_ENTROPY, max(0.0, moved))


def entropy_coef_of(config: SessionConfig, before: dict[str, float] | None) -> float:
    """That of a step, from the metrics of the step ``before``: a resumed run needs nothing but its
    journal.
    """
    if config.entropy_target is None or before is None or before.get("entropy_coef") is None:
        return config.entropy_coef
    return next_entropy_coef(before["entropy_coef"], before["entropy"], config.entropy_target)
