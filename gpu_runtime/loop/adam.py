"""What the managed loop asks of ``optim_step``: the session's AdamW at the rate of its schedule."""

import math

from gpu_runtime.model_interfaces import AdamParams, Trainer
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.defaults import config_resolve


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
