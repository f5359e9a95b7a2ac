"""Gradient checkpointing: a layer saves its inputs alone and computes again in the backward pass.

transformers does so only in train mode, which would also turn on dropout, noise in routers and
skipped layers: other numbers than those of the engine. Here each layer's forward is wrapped
instead, and the model stays in eval mode. Source: Chen et al. 2016, "Training Deep Nets with
Sublinear Memory Cost", arXiv:1604.06174.

Those inputs may be kept in the memory of the host until the backward pass needs them. DeepSpeed's
own offload patches the call of transformers' layers, which in eval mode checkpoints nothing; torch
has a hook for it (``save_on_cpu``).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from gpu_runtime.errors import ModelUnsupported


def layers_recompute(model: nn.Module, *, offload: bool = False, beyond: int = 0) -> None:
    """Wrap every decoder layer of ``model``; ``offload``: its inputs are kept on the host. Rows of
    at most ``beyond`` tokens are computed once and kept whole.

    Raises ModelUnsupported for a model that has none known as such.
    """
    layers: list[Any] = [
        module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)
    ]
    if not layers:
        raise ModelUnsupported(
            f"{type(model).__name__} has no layers for gradient_checkpointing; turn it off"
        )
    for layer in layers:
        forward = partial(_offloaded if offload else _recomputed, layer.forward)
        layer.forward = partial(_by_length, layer.forward, forward, beyond) if beyond else forward


def _by_length(
    kept: Callable[..., Any],
    recomputed: Callable[..., Any],
    beyond: int,
    *inputs: Any,
    **options: Any,
) -> Any:
    states = inputs[0] if inputs else options["hidden_states"]
    return (recomputed if states.shape[:-1].numel() > beyond else kept)(*inputs, **options)


def _recomputed(forward: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    # Nothing is drawn at random in eval mode: no generator needs to be restored.
    return checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False, **options)


def _offloaded(forward: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    with save_on_cpu(pin_memory=True):
        return _recomputed(forward, *inputs, **options)
