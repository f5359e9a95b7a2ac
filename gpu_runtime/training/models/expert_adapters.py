"""Adapters on the experts of a mixture, which transformers joins in one tensor a layer, E experts
by two sizes: peft wraps such a tensor (``target_parameters``).

A has the rows of all experts, ``[E rank, in]``, one expert after the other; B their columns,
``[out, rank E]``, a rank after the other. Where a layer has several joined tensors peft nests its
wrappers, and a tensor's A and B have the name of the layer with a ``.base_layer`` for each wrapper
around it. vLLM reads a folder of this form.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .routing import routers
from .towers import text_names

WRAPPED = ".base_layer"
# In the configuration of a mixture's adapter peft 0.21 takes layers of these names (shared experts,
# dense layers) for the experts before transformers joined them.
TAKEN = {"gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}


def expert_weights(model: Any) -> dict[str, nn.Parameter]:
    """The joined tensors of the experts of the text side, by the base's own names."""
    found = {}
    for name, parameter in model.named_parameters():
        layer, _, own = name.replace(WRAPPED, "").rpartition(".")
        is_joined = len(getattr(parameter, "ds_shape", parameter.shape)) == 3
        if layer.endswith("experts") and is_joined and "bias" not in own:
            found[f"{layer}.{own}"] = parameter
    texts = {name.replace(WRAPPED, "") for name in text_names(model)} if found else set()
    return {name: it for name, it in found.items() if name.rpartition(".")[0] in texts}


def expert_keys(model: Any) -> dict[str, str]:
    """Of each joined tensor by what name its A and B go."""
    by_layer: dict[str, list[str]] = {}
    for name in expert_weights(model):
        by_layer.setdefault(name.rpartition(".")[0], []).append(name)
    return {
        name: layer + WRAPPED * around
        for layer, names in by_layer.items()
        for around, name in enumerate(reversed(names))
    }


def never_adapted(model: Any) -> set[str]:
    """The modules of a mixture by name that no adapter is on: its routers, and what peft takes for
    its experts.
    """
    if not expert_weights(model):
        return set()
    parts = {id(part) for router in routers(model) for part in router.modules()}
    return {
        name
        for name, module in model.named_modules()
        if id(module) in parts or name.replace(WRAPPED, "").rpartition(".")[2] in TAKEN
    }


def is_expert_key(layer: str) -> bool:
    """Whether a layer of an adapter is the joined experts of one."""
    return layer.replace(WRAPPED, "").endswith("experts")


def expert_delta(layer: Any, a: Tensor, b: Tensor, experts: int) -> Tensor:
    """``B A`` of each expert in float32, as ``layer`` has its tensors."""
    a_ERI = a.float().reshape(experts, -1, a.shape[-1])
    b_ORE = b.float().reshape(b.shape[0], -1, experts)
    is_transposed = getattr(layer, "is_transposed", False)
    return torch.einsum(f"ore,eri->{'eio' if is_transposed else 'eoi'}", b_ORE, a_ERI)
