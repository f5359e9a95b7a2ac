"""Gradient checkpointing: a layer saves its inputs alone and computes again in the backward pass.

transformers does so only in train mode, which would also turn on dropout, noise in routers and skipped layers: other
numbers than those of the engine. Here each layer's forward is wrapped instead, and the model stays in eval mode.
Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from gpu_runtime.errors import ModelUnsupported


def layers_recompute(model: nn.Module) -> None:
    """Wrap every decoder layer of ``model``. Raises ModelUnsupported for a model that has none known as such."""
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ModelUnsupported(f"{type(model).__name__} has no layers for gradient_checkpointing; turn it off")
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    # Nothing is drawn at random in eval mode: no generator needs to be restored.
    return checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False, **options)
