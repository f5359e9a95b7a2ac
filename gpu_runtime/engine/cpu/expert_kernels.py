"""Experts that vLLM multiplies with on a CPU are those that it was last given."""

from typing import Any

from torch import Tensor
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import (
    UnquantizedFusedMoEMethod,
)

_setup = UnquantizedFusedMoEMethod._setup_kernel  # noqa: SLF001 - what is made right here


def experts_pack_anew() -> None:
    """Let a reload pack the experts of a layer, as the first load does.

    vLLM 0.32.0 packs them as it makes the layer's kernel. It makes none for new weights, and would
    multiply with rows that lie as in the file as if they were packed.
    """
    UnquantizedFusedMoEMethod._setup_kernel = _setup_anew  # noqa: SLF001


def _setup_anew(method: Any, layer: Any, w13: Tensor, w2: Tensor) -> None:
    method.moe_kernel = None
    _setup(method, layer, w13, w2)
