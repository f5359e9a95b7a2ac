"""AdamW that refuses a step that would break the weights, and the learning rate as a function of
the step.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from gpu_runtime.model_interfaces import AdamParams
from tinkerscript.wire.config import SessionConfig


def learning_rate(config: SessionConfig, step: int) -> float:
    """lr(step) = peak * min(1, step / (warmup + 1)) * fall(p); ``step`` is 1-based.

    p in [0, 1) is the part of the steps between warm-up and ``max_steps`` that came before this
    one. With m = ``lr_min_ratio``: constant 1; linear 1 - (1-m) p; cosine m + (1-m) (1 + cos(pi p))
    / 2, which is Loshchilov and Hutter 2017, arXiv:1608.03983, eq. 5, without restarts. The first
    step after warm-up has the peak, a step at ``max_steps`` + 1 would have the minimum.

    A pure function of the step, so that a resumed run needs no scheduler state.
    """
    assert config.learning_rate is not None, "filled in by config_resolve"
    warm = min(1.0, step / (config.warmup_steps + 1))
    return config.learning_rate * warm * _fall(config, step)


def loop_adam(config: SessionConfig, step: int) -> AdamParams:
    """What the managed loop asks of ``optim_step`` at this step."""
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


class GuardedAdamW(torch.optim.AdamW):
    """``step`` changes nothing, on any rank, when a gradient of any rank is NaN or infinite;
    ``refused`` is then True.

    Under ZeRO each rank holds its own shard of the gradients, so the ranks agree by a minimum over
    their flags, which travel on ``device`` wherever the shards are.
    """

    refused = False
    refuse_next = False  # whatever the gradient is
    # of the gradient before it was clipped
    global_norm: Callable[[], float] = staticmethod(lambda: 0.0)

    def __init__(
        self, parameters: Iterable[nn.Parameter], config: SessionConfig, device: torch.device
    ) -> None:
        super().__init__(
            parameters,
            lr=0.0,  # set at each step, as the others are
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
            fused=True,  # one pass over memory, which is what a step on a host costs
        )
        self.device, self.most_norm = device, config.grad_norm_limit

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        gradients = [
            p.grad for group in self.param_groups for p in group["params"] if p.grad is not None
        ]
        finite = (
            torch.stack([torch.isfinite(g.sum()) for g in gradients]).all()
            if gradients
            else torch.tensor(True)
        )
        finite_everywhere = finite.to(self.device, torch.float32)
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(finite_everywhere, op=dist.ReduceOp.MIN)
        # The norm is over all ranks, so they agree about it.
        self.refused = (
            finite_everywhere.item() == 0.0
            or self.refuse_next
            or self.global_norm() > self.most_norm
        )
        return None if self.refused else super().step(closure)
