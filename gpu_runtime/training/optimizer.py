"""AdamW of both trainers, and steps that refuse to break the weights."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from gpu_runtime.model_interfaces import AdamParams, InvalidTrainingInput


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
    ``torch.nn.utils.clip_grad_norm_`` does. Raises InvalidTrainingInput, the weights unchanged, for
    a gradient that is not finite.
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
        raise InvalidTrainingInput(
            f"the accumulated gradient is not finite (norm {norm.item()}): the weights stand and "
            "it is forgotten"
        )
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
