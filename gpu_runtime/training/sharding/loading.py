"""A model that is cut into the parts of the ranks while it is loaded, for ZeRO 3: no rank ever has
the whole of it.

transformers loads weights of the type that the files have as views of the mapped files: pages of
the file system's cache, and no memory of the process. One weight after the other is then copied
from there by rank 0, converted, sent to the others and cut (``deepspeed.zero.Init``). A rank has
its parts, and one buffer as large as the largest weight.

transformers' own way to load for ZeRO 3 is not taken: it makes the frequencies of positions
bfloat16 where the weights are, and puts whole modules together in memory that the process then
keeps.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.utils import set_z3_leaf_modules
from safetensors import safe_open
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from gpu_runtime.training.cpu.onednn_linear import linear_layers_use_onednn
from gpu_runtime.training.optimizer import deepspeed_config
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rank_spec import RankSpec

from .shards import rank

STORED = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}  # safetensors' names


def policy_load(spec: RankSpec, dtype: torch.dtype, *, trained: bool = False) -> Policy:
    """The base model of ``spec`` on its rank's device, in parts under ZeRO 3; ``trained``: it has a
    backward pass.

    In parts a collective: every rank must take part.
    """
    load = partial(
        Policy.load,
        spec.base_model_path,
        device=spec.device,
        gradient_checkpointing=trained and spec.config.gradient_checkpointing,
        offload_activations=spec.config.offload_activations,
        shares_rows=spec.config.sequence_parallel,
    )
    device = torch.device(spec.torch_device)
    if spec.config.zero_stage != 3:
        return load(dtype=dtype).to(device)
    policy = load(dtype=_stored_dtype(Path(spec.base_model_path)) or dtype)
    shards_make(policy, dtype, device)
    policy.model.config.dtype = dtype
    if not policy.kind.shares:
        layers_gather_whole(policy)
    return policy


def layers_gather_whole(model: nn.Module) -> None:
    """Put each layer's weights together as a whole while it computes, and not each module's as it
    is called.

    Layers of hybrids read weights of modules that they do not call (a convolution's, for a kernel
    of their own).
    """
    if layers := {
        type(module) for module in model.modules() if isinstance(module, GradientCheckpointingLayer)
    }:
        set_z3_leaf_modules(model, list(layers))


@torch.no_grad()
def shards_make(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Cut each weight of ``model``, of rank 0's values in ``dtype``, and leave this rank its parts,
    on ``device``.
    """
    buffer = torch.empty(
        max(weight.numel() for weight in model.parameters()), dtype=dtype, device=device
    )
    for weight in model.parameters():
        whole = buffer[: weight.numel()].view(weight.shape)
        if rank() == 0:
            whole.copy_(weight)
        weight.data = whole
        deepspeed.zero.Init(module=nn.ParameterList([weight]), dtype=dtype)
    for tensor in model.buffers():
        tensor.data = tensor.to(device)


def shards_computed(model: nn.Module, config: Mapping[str, Any]) -> nn.Module:
    """``model``, which is cut and not trained, such that each module's weights are put together
    while it computes.
    """
    zero = {**config["zero_optimization"], "stage3_param_persistence_threshold": 0}
    engine, *_ = deepspeed.initialize(model=model, config={**config, "zero_optimization": zero})
    return engine


def base_load(spec: RankSpec, dtype: torch.dtype, policy: Policy) -> nn.Module:
    """The base model as a reference of ``policy``, whose rows it takes; it is not trained."""
    base = policy_load(spec, dtype).eval().requires_grad_(False)
    if base.kind is not policy.kind:
        base.rows_become(policy.kind, policy.apart)
    if spec.device == "cpu":
        linear_layers_use_onednn(base)
    return (
        shards_computed(base, deepspeed_config(spec.config, dtype))
        if spec.config.zero_stage == 3
        else base
    )


def _stored_dtype(folder: Path) -> torch.dtype | None:
    """The type of the weights in a folder's files; None where there are no files here to look
    into.
    """
    for path in sorted(folder.glob("*.safetensors"))[:1]:
        with safe_open(path, framework="pt") as file:
            return STORED.get(file.get_slice(next(iter(file.keys()))).get_dtype())
    return None
