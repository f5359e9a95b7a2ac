"""AdamW of both trainers, steps that refuse to break the weights, and what DeepSpeed is told of a
session.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from gpu_runtime.errors import StepRefused
from gpu_runtime.model_interfaces import AdamParams
from tinkerscript.wire.config import SessionConfig

# Elements, in float32, that a rank keeps to sum gradients in. DeepSpeed's own 500 million are 1.9
# GiB of a device.
REDUCE_BUCKET = 50_000_000


def adam_set(groups: Iterable[dict[str, Any]], params: AdamParams) -> None:
    """Give an optimizer's parameter groups what the next step is to be taken with."""
    for group in groups:
        group["lr"], group["betas"] = params.learning_rate, (params.beta1, params.beta2)
        group["eps"], group["weight_decay"] = params.eps, params.weight_decay


def adam_make(parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
    """An AdamW without any moments; its settings come with each step. Fused: one pass over
    memory.
    """
    return torch.optim.AdamW(parameters, lr=0.0, fused=True)


def adam_step(optimizer: torch.optim.AdamW, params: AdamParams) -> dict[str, float]:
    """Apply and forget the gradient; returns its norm before the clip, ``grad_norm``.

    A parameter without a gradient has one of zero, so that every parameter counts the same steps.
    The clip multiplies by min(1, grad_clip_norm / (norm + 1e-6)), as
    ``torch.nn.utils.clip_grad_norm_`` does. Raises StepRefused, the weights unchanged, for a
    gradient that is not finite.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
    norm = get_total_norm(gradients)
    if not torch.isfinite(norm):
        optimizer.zero_grad()
        raise StepRefused(f"the gradient is not finite (norm {norm.item()})")
    if params.grad_clip_norm > 0:
        clip_grads_with_norm_(parameters, params.grad_clip_norm, norm)
    adam_set(optimizer.param_groups, params)
    optimizer.step()
    optimizer.zero_grad()
    return {"grad_norm": norm.item()}


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
        self, parameters: Iterable[nn.Parameter], most_norm: float, device: torch.device
    ) -> None:
        # its settings come with each step; fused: one pass over memory, which is what it costs
        super().__init__(parameters, lr=0.0, fused=True)
        self.device, self.most_norm = device, most_norm

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


def deepspeed_config(config: SessionConfig, dtype: torch.dtype) -> dict[str, object]:
    """The dictionary that ``deepspeed.initialize`` takes."""
    # managed_gradient_accumulation off: the caller decides when to step, as the primitives need it.
    # The batch sizes only satisfy DeepSpeed's arithmetic; losses are scaled by our own normalisers.
    zero: dict[str, object] = {"stage": config.zero_stage, "reduce_bucket_size": REDUCE_BUCKET}
    if config.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.grad_clip,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": dtype == torch.bfloat16, "check_grad_overflow": True},
        # The sum over micro-batches: in bf16 it would stop growing after a few hundred of them.
        "data_types": {"grad_accum_dtype": "fp32"},
        "steps_per_print": 2**31,
    }


def gradients_sum_in_one(optimizer: Any, config: SessionConfig) -> None:
    """Let DeepSpeed sum the gradients of all rows in the very buffer that the optimizer is given,
    in float32 too.

    ``optimizer`` is DeepSpeed's. Its ZeRO 2 has that buffer where gradients have another type than
    weights. Where they have one it keeps the sum, the gradient of the last row and, for the step, a
    copy in the optimizer's order: two numbers more for each weight, which nothing needs. The sums
    are made in the same order and have the same bits.
    """
    if config.zero_stage == 2 and not config.offload_optimizer:
        # there is no option for it
        vars(optimizer)["_use_compact_grad_partition_buffer"] = lambda _group: True
