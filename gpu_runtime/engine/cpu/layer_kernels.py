"""What lies between the products of a layer, by ``native/layer.c``: for a decoding step's few rows in one thread.

vLLM's operators and torch's share such rows among all threads, which takes longer to arrange than to compute. Results
differ from theirs by float32's rounding. Shapes: N rows, E width, I inner width, D head size.
"""

import ctypes
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from gpu_runtime.native.compiled import SIDE, compiled, is_suited


class LayerKernels:
    """The library's functions over tensors; float32, contiguous rows."""

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._norm = _function(library.add_and_norm, pointer, pointer, pointer, ctypes.c_float, size, size)
        self._silu = _function(library.silu_and_mul, pointer, pointer, size, size)
        self._rotate = _function(library.rotate, pointer, pointer, pointer, size, size, size, size)

    def add_and_norm(self, x_NE: Tensor, residual_NE: Tensor, weight_E: Tensor, epsilon: float) -> None:
        """``residual += x``, then x is its norm times ``weight``."""
        self._norm(x_NE.data_ptr(), residual_NE.data_ptr(), weight_E.data_ptr(), epsilon, *x_NE.shape)

    def silu_and_mul(self, both_N2I: Tensor) -> Tensor:
        """``silu(gate) * up``, ``[N, I]``, of ``gate`` and ``up`` side by side."""
        rows, inner = len(both_N2I), both_N2I.shape[1] // 2
        out_NI = both_N2I.new_empty(rows, inner)
        self._silu(out_NI.data_ptr(), both_N2I.data_ptr(), rows, inner)
        return out_NI

    def rotate(self, rows_N: Tensor, positions_N: Tensor, turns_PD: Tensor, heads: int) -> None:
        """The first ``heads`` heads of each row of ``rows_N [N, any]``, in place, by the angles of its position."""
        rows, stride = rows_N.shape
        size = turns_PD.shape[1]
        self._rotate(rows_N.data_ptr(), positions_N.data_ptr(), turns_PD.data_ptr(), rows, stride, heads, size)


def layer_kernels(layer: Any) -> LayerKernels | None:
    """For a plain layer of vLLM's whose shapes the kernels know; None leaves it to vLLM's operators."""
    attention, width, inner = layer.self_attn, layer.input_layernorm.weight.numel(), layer.mlp.down_proj.input_size
    rotary = attention.rotary_emb
    fits = (
        width % SIDE == 0
        and inner % SIDE == 0
        and attention.head_dim % (2 * SIDE) == 0
        and rotary.is_neox_style
        and rotary.rotary_dim == rotary.head_size == attention.head_dim
        and rotary.cos_sin_cache.dtype == torch.float32
        and rotary.cos_sin_cache.is_contiguous()
    )
    library = compiled("layer") if fits and is_suited() else None
    return LayerKernels(library) if library is not None else None


def _function(function: Any, *types: Any) -> Callable[..., None]:
    function.argtypes, function.restype = types, None
    return cast(Callable[..., None], function)
