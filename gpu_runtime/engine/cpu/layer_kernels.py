"""A plain layer of vLLM's as two calls of ``native/layer.c``: what comes before its attention and
what comes after.

Called one by one, the products of a decoding step and what lies between them take a good part of
their own time for Python and for threads that wait. Results differ from those of vLLM's operators
by float32's rounding. Shapes: N tokens of a step, E width of the model.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.native.compiled import SIDE, compiled, is_suited
from gpu_runtime.weights.packed_linear import PackedLinear, Weight, panels_room

POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t


class Norm(ctypes.Structure):
    """``struct norm`` of the C file."""

    _fields_ = [("weight", POINTER), ("epsilon", ctypes.c_float)]


class Layer(ctypes.Structure):
    """``struct layer`` of the C file."""

    _fields_ = [
        *((name, Norm) for name in ("before", "between")),
        *((name, Weight) for name in ("qkv", "out", "gate_up", "down")),
        ("cache", POINTER),
    ]


class Rows(ctypes.Structure):
    """``struct rows`` of the C file."""

    _fields_ = [
        *(("count", SIZE), ("positions", POINTER), ("turns", POINTER)),
        *(("turned", SIZE), ("size", SIZE), ("scratch", POINTER)),
    ]


class LayerKernels:
    """One layer, ``LlamaDecoderLayer``; tensors are float32 with contiguous rows."""

    def __init__(self, library: ctypes.CDLL, layer: Any) -> None:
        self.library, self.attention = library, layer.self_attn
        self._layer, mlp = layer, layer.mlp
        linears = (self.attention.qkv_proj, self.attention.o_proj, mlp.gate_up_proj, mlp.down_proj)
        self._linears, self._widest = linears, max(linear.input_size for linear in linears)

    def before_attention(
        self, hidden_NE: Tensor, residual_NE: Tensor, positions_N: Tensor
    ) -> Tensor:
        """``residual += hidden``; of its norm queries and keys, turned by their positions, and
        values, side by side.
        """
        layer, rows, scratch = self.now(), self.rows(positions_N), self.scratch(hidden_NE)
        rows.scratch = scratch.data_ptr()
        heads = hidden_NE.new_empty(len(hidden_NE), layer.qkv.rows)
        self.library.before_attention(
            heads.data_ptr(), hidden_NE.data_ptr(), residual_NE.data_ptr(), layer, rows
        )
        return heads

    def after_attention(self, attended: Tensor, residual_NE: Tensor) -> Tensor:
        """``residual += `` the output of attention; the layer's output ``[N, E]``."""
        layer, scratch = self.now(), self.scratch(attended)
        rows = Rows(count=len(attended), scratch=scratch.data_ptr())
        hidden_NE, both = (
            torch.empty_like(residual_NE),
            attended.new_empty(len(attended), layer.gate_up.rows),
        )
        self.library.after_attention(
            hidden_NE.data_ptr(),
            attended.data_ptr(),
            residual_NE.data_ptr(),
            both.data_ptr(),
            layer,
            rows,
        )
        return hidden_NE

    def now(self, cache: int | None = None) -> Layer:
        """Where its weights are, and its keys and values; looked up each time, as a hand-over may
        replace weights.
        """
        norms = _norm(self._layer.input_layernorm), _norm(self._layer.post_attention_layernorm)
        return Layer(*norms, *map(_weight, self._linears), cache)

    def rows(self, positions_N: Tensor) -> Rows:
        """What all layers of a step are told of its rows, but ``scratch``."""
        attention, turns = self.attention, self.attention.rotary_emb.cos_sin_cache
        turned = attention.num_heads + attention.num_kv_heads
        return Rows(
            len(positions_N),
            positions_N.data_ptr(),
            turns.data_ptr(),
            turned,
            attention.head_dim,
            None,
        )

    def scratch(self, like_N: Tensor) -> Tensor:
        """Room for what the kernels multiply."""
        return panels_room(like_N, len(like_N), self._widest)


def layer_kernels(layer: Any) -> LayerKernels | None:
    """For a plain layer of vLLM's whose shapes the kernels know; None leaves it to vLLM's
    operators.
    """
    attention, mlp, width = layer.self_attn, layer.mlp, layer.input_layernorm.weight.numel()
    rotary = attention.rotary_emb
    linears = (attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj)
    fits = (
        all(isinstance(linear.cpu_linear, PackedLinear) for linear in linears)
        and width % SIDE == 0
        and mlp.down_proj.input_size % SIDE == 0
        and attention.head_dim % (2 * SIDE) == 0
        and rotary.is_neox_style
        and rotary.rotary_dim == rotary.head_size == attention.head_dim
        and rotary.cos_sin_cache.dtype == torch.float32
        and rotary.cos_sin_cache.is_contiguous()
    )
    found = library() if fits and is_suited() else None
    return LayerKernels(found, layer) if found is not None else None


def library() -> ctypes.CDLL | None:
    """``native/layer.c``; None where it cannot be compiled."""
    if (found := compiled("layer")) is not None:
        layer, rows = ctypes.POINTER(Layer), ctypes.POINTER(Rows)
        found.before_attention.argtypes = [*[POINTER] * 3, layer, rows]
        found.after_attention.argtypes = [*[POINTER] * 4, layer, rows]
        found.layers_step.argtypes = [layer, SIZE, *[POINTER] * 5, rows, POINTER]
        found.before_attention.restype = found.after_attention.restype = (
            found.layers_step.restype
        ) = None
    return found


def _norm(norm: Any) -> Norm:
    return Norm(norm.weight.data_ptr(), norm.variance_epsilon)


def _weight(linear: Any) -> Weight:
    packed: PackedLinear = linear.cpu_linear
    return packed.weight
