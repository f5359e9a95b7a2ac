"""One AdamW step with the caller's parameters: torch's own, on accumulated gradients in float32."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from gpu_runtime.model_interfaces import AdamParams, InvalidTrainingInput


def adam_check(params: AdamParams) -> None:
    """Raises InvalidTrainingInput for a value that AdamW cannot use."""
    bounds = {
        "learning_rate": (0.0, math.inf), "beta1": (0.0, 1.0), "beta2": (0.0, 1.0), "eps": (0.0, math.inf),
        "weight_decay": (0.0, math.inf), "grad_clip_norm": (0.0, math.inf),
    }  # fmt: skip
    for name, (low, high) in bounds.items():
        value = getattr(params, name)
        if not (low <= value < high) or (name == "eps" and value == 0):
            raise InvalidTrainingInput(
                f"adam_params {name} is {value}; it must be "
                f"{'above' if name == 'eps' else 'at least'} {low:g} and"
                f" below {high:g}"
            )


def adam_make(parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
    """An AdamW without any moments; its settings come with each step. Fused: one pass over
    memory.
    """
    return torch.optim.AdamW(parameters, lr=0.0, fused=True)


def adam_set(groups: Iterable[dict[str, Any]], params: AdamParams) -> None:
    """Give an optimizer's parameter groups what the next step is to be taken with."""
    for group in groups:
        group["lr"], group["betas"] = params.learning_rate, (params.beta1, params.beta2)
        group["eps"], group["weight_decay"] = params.eps, params.weight_decay


def adam_step(optimizer: torch.optim.AdamW, params: AdamParams) -> dict[str, float]:
    """Apply and forget the gradient; returns its norm before the clip, ``grad_norm``.

    A parameter without a gradient has one of zero, so that every parameter counts the same steps.
    The clip multiplies by min(1, grad_clip_norm / (norm + 1e-6)), as
    ``torch.nn.utils.clip_grad_norm_`` does. Raises InvalidTrainingInput, the weights unchanged, for
    a gradient that is not finite.
    """
    adam_check(params)
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
