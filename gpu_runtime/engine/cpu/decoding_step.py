"""A decoding step through all layers of a plain Llama in vLLM's worker on a CPU, with their
attention, as one call of ``native/layer.c``.

Where every sequence of a batch gets one token, Python between the layers, vLLM's attention and
threads that wait for one another take a good part of what the products take. Batches with prompts
go through the layers one by one. Results differ by float32's rounding, and a row's bits do not
depend on the batch's other rows. Shapes: N sequences, E width.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from vllm.forward_context import get_forward_context
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl, CPUAttentionMetadata

from gpu_runtime.native.compiled import SIDE

from .layer_kernels import POINTER, SIZE, Layer, LayerKernels

PIECE, MOST_SIZE = 32, 256  # as in native/cached_attention.h


class _Cached(ctypes.Structure):
    """``struct cached`` of the C file."""

    _fields_ = [
        *((name, SIZE) for name in ("block", "head", "tokens")),
        *(("blocks", POINTER), ("most", SIZE), ("lengths", POINTER), ("slots", POINTER)),
        *((name, SIZE) for name in ("heads", "kept", "size")),
        ("scale", ctypes.c_float),
    ]


class DecodingStep:
    """All layers of a model, in their order. Build it with ``decoding_step``."""

    def __init__(self, layers: Sequence[LayerKernels]) -> None:
        self._layers, self._attentions = layers, [layer.attention.attn for layer in layers]
        self._names = [attention.layer_name for attention in self._attentions]

    def __call__(self, hidden_NE: Tensor, positions_N: Tensor) -> tuple[Tensor, Tensor] | None:
        """Hidden states, which are overwritten, and their residual after the last layer; keys and
        values are kept.

        None for a batch that is not one token for each sequence.
        """
        if (cached := self._cached(len(hidden_NE))) is None:
            return None
        first, caches = self._layers[0], [attention.kv_cache for attention in self._attentions]
        now = [
            layer.now(cache.data_ptr()) for layer, cache in zip(self._layers, caches, strict=True)
        ]
        rows, scratch, residual_NE = (
            first.rows(positions_N),
            first.scratch(hidden_NE),
            torch.zeros_like(hidden_NE),
        )
        rows.scratch = scratch.data_ptr()
        widths = now[0].qkv.rows, now[0].out.columns, now[0].gate_up.rows
        room = [hidden_NE.new_empty(len(hidden_NE), width) for width in widths]
        first.library.layers_step(
            (Layer * len(now))(*now), len(now), hidden_NE.data_ptr(), residual_NE.data_ptr(),
            *(each.data_ptr() for each in room), rows, ctypes.byref(cached),
        )  # fmt: skip
        return hidden_NE, residual_NE

    def _cached(self, count: int) -> _Cached | None:
        context = get_forward_context()
        metadata, slots = context.attn_metadata, context.slot_mapping
        if not isinstance(metadata, dict) or not isinstance(slots, dict):
            return None
        batch, slots_N, cache = (
            metadata[self._names[0]],
            slots.get(self._names[0]),
            self._attentions[0].kv_cache,
        )
        is_known = (
            isinstance(batch, CPUAttentionMetadata)
            and batch.max_query_len == 1
            and batch.causal is True
            and batch.dynamic_causal is None
            and batch.num_actual_tokens == len(batch.seq_lens) == len(batch.block_table) == count
            and slots_N is not None
            and len(slots_N) == count
            and all(metadata[name] is batch for name in self._names)
            and all(attention.kv_cache.stride() == cache.stride() for attention in self._attentions)
        )
        if not is_known:
            return None
        assert slots_N is not None
        attention, blocks = self._attentions[0], batch.block_table
        assert (blocks.dtype, batch.seq_lens.dtype, slots_N.dtype) == (
            torch.int32,
            torch.int32,
            torch.int64,
        )
        return _Cached(
            *cache.stride()[:2], cache.shape[2], blocks.data_ptr(), blocks.stride(0), batch.seq_lens.data_ptr(),
            slots_N.data_ptr(), attention.num_heads, attention.num_kv_heads, attention.head_size,
            attention.impl.scale,
        )  # fmt: skip


def decoding_step(layers: Sequence[LayerKernels]) -> DecodingStep | None:
    """Of layers whose attention is plain; None leaves them to be computed one by one."""
    attentions = [layer.attention.attn for layer in layers]
    return DecodingStep(layers) if attentions and all(map(_is_plain, attentions)) else None


def _is_plain(attention: Any) -> bool:
    implementation, size = attention.impl, attention.head_size
    return (
        type(implementation) is CPUAttentionBackendImpl
        and implementation.attn_type == AttentionType.DECODER
        and implementation.alibi_slopes is None
        and implementation.sinks is None
        and implementation.sliding_window == -1
        and implementation.logits_soft_cap == 0
        and not implementation.is_fp8_kv_cache
        and size % (2 * SIDE) == 0
        and size <= MOST_SIZE
        and _has_known_cache(attention)
    )


def _has_known_cache(attention: Any) -> bool:
    """Whether vLLM keeps keys and values as the kernel reads them, found by having it keep some."""
    cache: Tensor = attention.kv_cache
    if cache.dtype != torch.float32 or cache.dim() != 4:
        return False
    _, heads, tokens, width = cache.shape
    if tokens % PIECE or width != 2 * attention.head_size or cache.stride()[2:] != (width, 1):
        return False
    size, place = attention.head_size, tokens - 3
    kept, slots = torch.zeros(2, heads, tokens, width), torch.tensor([tokens + place])
    key, value = torch.randn(2, 1, heads, size)
    attention.impl.do_kv_cache_update(attention, key, value, kept, slots)
    expected = torch.zeros_like(kept)
    expected[1].view(heads, 2, -1)[:, 0].view(heads, size, tokens)[:, :, place] = key[0]
    expected[1].view(heads, 2, -1)[:, 1].view(heads, tokens, size)[:, place] = value[0]
    return torch.equal(kept, expected)
