"""A plain layer of vLLM's as two calls of ``native/layer.c``: what comes before its attention and what comes after.

Called one by one, the products of a decoding step and what lies between them take a good part of their own time for
Python and for threads that wait. Results differ from those of vLLM's operators by float32's rounding. Shapes: N tokens
of a step, E width of the model.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.native.compiled import SIDE, compiled, is_suited
from gpu_runtime.weights.packed_linear import PackedLinear, Weight, panels_room


class Norm(ctypes.Structure):
    """``struct norm`` of the C file."""

    _fields_ = [("weight", ctypes.c_void_p), ("epsilon", ctypes.c_float)]


class LayerKernels:
    """One layer, ``LlamaDecoderLayer``; tensors are float32 with contiguous rows."""

    def __init__(self, library: ctypes.CDLL, layer: Any) -> None:
        self._before, self._after, self._layer = library.before_attention, library.after_attention, layer
        self._turned = layer.self_attn.num_heads + layer.self_attn.num_kv_heads

    def before_attention(self, hidden_NE: Tensor, residual_NE: Tensor, positions_N: Tensor) -> Tensor:
        """``residual += hidden``; of its norm queries and keys, turned by their positions, and values, side by side."""
        attention, norm = self._layer.self_attn, _norm(self._layer.input_layernorm)
        weight, turns, count = _weight(attention.qkv_proj), attention.rotary_emb.cos_sin_cache, len(hidden_NE)
        heads = hidden_NE.new_empty(count, weight.rows)
        scratch = panels_room(heads, count, weight.columns)
        self._before(
            heads.data_ptr(), hidden_NE.data_ptr(), residual_NE.data_ptr(), norm, weight,
            positions_N.data_ptr(), turns.data_ptr(), self._turned, turns.shape[1], count, scratch.data_ptr(),
        )  # fmt: skip
        return heads

    def after_attention(self, attended: Tensor, residual_NE: Tensor) -> Tensor:
        """``residual += `` the output of attention; the layer's output ``[N, E]``."""
        mlp, norm, count = self._layer.mlp, _norm(self._layer.post_attention_layernorm), len(attended)
        out, gate_up, down = map(_weight, (self._layer.self_attn.o_proj, mlp.gate_up_proj, mlp.down_proj))
        hidden_NE, both = torch.empty_like(residual_NE), attended.new_empty(count, gate_up.rows)
        scratch = panels_room(both, count, max(out.columns, gate_up.columns, down.columns))
        self._after(
            hidden_NE.data_ptr(), attended.data_ptr(), residual_NE.data_ptr(), norm, out, gate_up, down,
            both.data_ptr(), count, scratch.data_ptr(),
        )  # fmt: skip
        return hidden_NE


def layer_kernels(layer: Any) -> LayerKernels | None:
    """For a plain layer of vLLM's whose shapes the kernels know; None leaves it to vLLM's operators."""
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
        pointer, size, norm, weight = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Norm), ctypes.POINTER(Weight)
        found.before_attention.argtypes = [*[pointer] * 3, norm, weight, *[pointer] * 2, *[size] * 3, pointer]
        found.after_attention.argtypes = [*[pointer] * 3, norm, *[weight] * 3, pointer, size, pointer]
        found.before_attention.restype = found.after_attention.restype = None
    return found


def _norm(norm: Any) -> Norm:
    return Norm(norm.weight.data_ptr(), norm.variance_epsilon)


def _weight(linear: Any) -> Weight:
    packed: PackedLinear = linear.cpu_linear  # looked up each time: a hand-over of weights may replace it
    return packed.weight
