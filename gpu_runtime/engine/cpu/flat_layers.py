"""The layers of a Llama in vLLM's worker on a CPU, each as one function over vLLM's own kernels.

A model that a CPU can train is so small that Python between the kernels takes a good part of a
decoding step: a layer is a dozen modules, each chooses what to do by device and options, and each
norm is eight operators of torch. Here a layer chooses once, and all but its attention is
``layer_kernels``, or vLLM's operators where a shape or the processor is not one of theirs; a step
that samples one token of each sequence is one call for all layers (``decoding_step``). The numbers
are the same up to float32's rounding.

A layer that is not exactly a plain Llama's in float32 (biases, adapters, quantized weights, several
devices) stays as it is. Shapes: N tokens of a step, E width of the model.
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
from vllm.model_executor.models.llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaForCausalLM,
    LlamaMLP,
    LlamaModel,
)

from .decoding_step import decoding_step
from .layer_kernels import LayerKernels, layer_kernels

LINEARS = (QKVParallelLinear, RowParallelLinear, MergedColumnParallelLinear)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Forward = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


def layers_flatten(model: Any) -> tuple[int, bool]:
    """Let the layers of ``model`` that can be compute so; their number, and whether decoding steps
    are one call.

    A second time changes nothing.
    """
    if type(model) is not LlamaForCausalLM:
        return 0, False
    kernels = {layer: layer_kernels(layer) for layer in model.model.layers if _is_plain(layer)}
    for layer, found in kernels.items():
        layer.forward = _flat(layer, found)
    return len(kernels), _steps_flatten(
        model.model, [found for found in kernels.values() if found is not None]
    )


def _steps_flatten(model: LlamaModel, kernels: list[LayerKernels]) -> bool:
    """Let decoding steps take one call for all layers, if all are the kernels'; whether they
    are.
    """
    step = decoding_step(kernels) if len(kernels) == len(model.layers) else None
    if step is None or model.aux_hidden_state_layers:
        return False
    layer_by_layer = type(model).forward

    def forward(
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: Any,
        inputs_embeds: Tensor | None = None,
        **rest: Any,
    ) -> Any:
        if input_ids is not None and inputs_embeds is None and not rest:
            inputs_embeds = model.embed_input_ids(input_ids)
            if (stepped := step(inputs_embeds, positions)) is not None:
                return model.norm(*stepped)[0]
        return layer_by_layer(
            model, input_ids, positions, intermediate_tensors, inputs_embeds, **rest
        )

    model.forward = forward
    return True


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
    is_unquantized = (
        type(linear) in LINEARS and type(linear.quant_method) is UnquantizedLinearMethod
    )
    return (
        is_unquantized
        and linear.bias is None
        and linear.tp_size == 1
        and hasattr(linear, "cpu_linear")
    )


def _linears(layer: Any) -> tuple[Any, ...]:
    return (
        layer.self_attn.qkv_proj,
        layer.self_attn.o_proj,
        layer.mlp.gate_up_proj,
        layer.mlp.down_proj,
    )


def _flat(layer: Any, kernels: LayerKernels | None) -> Forward:
    attend = _attend(layer.self_attn.attn)
    if kernels is None:
        return _by_operators(layer, attend)
    attention = layer.self_attn
    sizes = [attention.q_size, attention.kv_size, attention.kv_size]

    def forward(
        positions: Tensor, hidden_NE: Tensor, residual_NE: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if residual_NE is None:
            residual_NE = torch.zeros_like(hidden_NE)
        heads = kernels.before_attention(hidden_NE, residual_NE, positions)
        return kernels.after_attention(attend(*heads.split(sizes, -1)), residual_NE), residual_NE

    return forward


def _by_operators(layer: Any, attend: Attend) -> Forward:
    """By vLLM's and torch's operators, where a shape or the processor is not one of the
    kernels'.
    """
    attention, rotary, silu = layer.self_attn, layer.self_attn.rotary_emb, nn.functional.silu
    norm, add_and_norm = torch.ops._C.rms_norm.default, torch.ops._C.fused_add_rms_norm.default  # noqa: SLF001 - vLLM's
    before, between = layer.input_layernorm, layer.post_attention_layernorm
    epsilon, epsilon_between = before.variance_epsilon, between.variance_epsilon
    qkv, out, gate_up, down = _linears(layer)
    sizes = [attention.q_size, attention.kv_size, attention.kv_size]

    def forward(
        positions: Tensor, hidden_NE: Tensor, residual_NE: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        # ``cpu_linear`` is looked up each time: a hand-over of weights may replace it.
        if residual_NE is None:
            residual_NE, normed_NE = hidden_NE, torch.empty_like(hidden_NE)
            norm(normed_NE, hidden_NE, before.weight, epsilon)
        else:
            normed_NE = hidden_NE
            add_and_norm(normed_NE, residual_NE, before.weight, epsilon)
        query, key, value = qkv.cpu_linear(normed_NE, qkv.weight, None).split(sizes, -1)
        rotary.forward_cpu(positions, query, key)
        hidden_NE = out.cpu_linear(attend(query, key, value), out.weight, None)
        add_and_norm(hidden_NE, residual_NE, between.weight, epsilon_between)
        gate, up = gate_up.cpu_linear(hidden_NE, gate_up.weight, None).chunk(2, -1)
        return down.cpu_linear(silu(gate).mul_(up), down.weight, None), residual_NE

    return forward


def _attend(attention: Any) -> Attend:
    """``attended`` of ``query``, ``key`` and ``value``, each ``[N, heads x size]``; keys and values
    are kept.
    """
    implementation, name = attention.impl, attention.layer_name
    heads, kept, size = attention.num_heads, attention.num_kv_heads, attention.head_size

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        count = len(query)
        attended = query.new_empty(count, heads * size)
        query, key, value = (
            query.view(count, heads, size),
            key.view(count, kept, size),
            value.view(count, kept, size),
        )
        metadata, _, cache, slots = get_attention_context(name)
        if slots is not None:
            implementation.do_kv_cache_update(attention, key, value, cache, slots)
        implementation.forward(
            attention, query, key, value, cache, metadata, output=attended.view(count, heads, size)
        )
        return attended

    return attend
