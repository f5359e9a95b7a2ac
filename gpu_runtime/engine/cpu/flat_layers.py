"""The layers of a Llama in vLLM's worker on a CPU, each as one function over vLLM's own kernels.

A model that a CPU can train is so small that Python between the kernels takes a good part of a decoding step: a layer
is a dozen modules, each chooses what to do by device and options, and each norm is eight operators of torch. Here a
layer chooses once, and what lies between its products is ``layer_kernels``, or vLLM's operators where a shape or the
processor is not one of theirs. The numbers are the same up to float32's rounding.

A layer that is not exactly a plain Llama's in float32 (biases, adapters, quantized weights, several devices) stays as
it is. Shapes: N tokens of a step, E width of the model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.activation import SiluAndMul
from vllm.model_executor.layers.attention.attention import Attention, get_attention_context
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import (
    MergedColumnParallelLinear,
    QKVParallelLinear,
    RowParallelLinear,
    UnquantizedLinearMethod,
)
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding
from vllm.model_executor.models.llama import LlamaAttention, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP

from .layer_kernels import layer_kernels

LINEARS = (QKVParallelLinear, RowParallelLinear, MergedColumnParallelLinear)
Forward = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


def layers_flatten(model: Any) -> int:
    """Let the layers of ``model`` that can be compute so, and return their number. A second time changes nothing."""
    if type(model) is not LlamaForCausalLM:
        return 0
    plain = [layer for layer in model.model.layers if _is_plain(layer)]
    for layer in plain:
        layer.forward = _flat(layer)
    return len(plain)


def _is_plain(layer: Any) -> bool:
    if type(layer) is not LlamaDecoderLayer:
        return False
    attention, mlp = layer.self_attn, layer.mlp
    return (
        type(attention) is LlamaAttention
        and type(mlp) is LlamaMLP
        and type(mlp.act_fn) is SiluAndMul
        and all(map(_is_plain_norm, (layer.input_layernorm, layer.post_attention_layernorm)))
        and all(map(_is_plain_linear, _linears(layer)))
        and type(attention.rotary_emb).forward_cpu is RotaryEmbedding.forward_cpu
        and type(attention.attn) is Attention
        and attention.attn.query_quant is None
        and attention.attn.kv_sharing_target_layer_name is None
        and not attention.attn.attn_backend.forward_includes_kv_cache_update
    )


def _is_plain_norm(norm: Any) -> bool:
    is_whole = type(norm) is RMSNorm and norm.has_weight and norm.variance_size_override is None
    return is_whole and norm.weight.dtype == torch.float32


def _is_plain_linear(linear: Any) -> bool:
    is_unquantized = type(linear) in LINEARS and type(linear.quant_method) is UnquantizedLinearMethod
    return is_unquantized and linear.bias is None and linear.tp_size == 1 and hasattr(linear, "cpu_linear")


def _linears(layer: Any) -> tuple[Any, ...]:
    return layer.self_attn.qkv_proj, layer.self_attn.o_proj, layer.mlp.gate_up_proj, layer.mlp.down_proj


def _flat(layer: Any) -> Forward:
    attention, attend = layer.self_attn, _attend(layer.self_attn.attn)
    norm = torch.ops._C.rms_norm.default  # noqa: SLF001 - vLLM's
    before, between = layer.input_layernorm, layer.post_attention_layernorm
    epsilon, epsilon_between = before.variance_epsilon, between.variance_epsilon
    qkv, out, gate_up, down = _linears(layer)
    sizes = [attention.q_size, attention.kv_size, attention.kv_size]
    rotate, add_and_norm, silu_and_mul = _between_products(layer)

    def forward(positions: Tensor, hidden_NE: Tensor, residual_NE: Tensor | None) -> tuple[Tensor, Tensor]:
        # ``cpu_linear`` is looked up each time: a hand-over of weights may replace it.
        if residual_NE is None:
            residual_NE, normed_NE = hidden_NE, torch.empty_like(hidden_NE)
            norm(normed_NE, hidden_NE, before.weight, epsilon)
        else:
            normed_NE = hidden_NE
            add_and_norm(normed_NE, residual_NE, before.weight, epsilon)
        heads = qkv.cpu_linear(normed_NE, qkv.weight, None)
        rotate(heads, positions)
        hidden_NE = out.cpu_linear(attend(*heads.split(sizes, -1)), out.weight, None)
        add_and_norm(hidden_NE, residual_NE, between.weight, epsilon_between)
        gate_and_up = gate_up.cpu_linear(hidden_NE, gate_up.weight, None)
        return down.cpu_linear(silu_and_mul(gate_and_up), down.weight, None), residual_NE

    return forward


def _between_products(layer: Any) -> tuple[Callable[..., None], Callable[..., None], Callable[[Tensor], Tensor]]:
    """``rotate`` of queries and keys that stand side by side, ``add_and_norm``, both in place, and ``silu_and_mul``."""
    attention = layer.self_attn
    rotary, sizes = attention.rotary_emb, [attention.q_size, attention.kv_size, attention.kv_size]
    if (kernels := layer_kernels(layer)) is not None:
        heads = attention.num_heads + attention.num_kv_heads

        def turned(rows: Tensor, positions: Tensor) -> None:
            kernels.rotate(rows, positions, rotary.cos_sin_cache, heads)

        return turned, kernels.add_and_norm, kernels.silu_and_mul
    silu = nn.functional.silu

    def rotated(rows: Tensor, positions: Tensor) -> None:
        query, key, _ = rows.split(sizes, -1)
        rotary.forward_cpu(positions, query, key)

    def multiplied(both: Tensor) -> Tensor:
        gate, up = both.chunk(2, -1)
        return silu(gate).mul_(up)

    return rotated, torch.ops._C.fused_add_rms_norm.default, multiplied  # noqa: SLF001 - vLLM's


def _attend(attention: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """``attended`` of ``query``, ``key`` and ``value``, each ``[N, heads x size]``; keys and values are kept."""
    implementation, name = attention.impl, attention.layer_name
    heads, kept, size = attention.num_heads, attention.num_kv_heads, attention.head_size

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        count = len(query)
        attended = query.new_empty(count, heads * size)
        query, key, value = query.view(count, heads, size), key.view(count, kept, size), value.view(count, kept, size)
        metadata, _, cache, slots = get_attention_context(name)
        if slots is not None:
            implementation.do_kv_cache_update(attention, key, value, cache, slots)
        implementation.forward(attention, query, key, value, cache, metadata, output=attended.view(count, heads, size))
        return attended

    return attend
