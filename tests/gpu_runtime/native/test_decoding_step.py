"""A decoding step through all layers: the formulas in float64, for sequences of any length in any
blocks.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from gpu_runtime.engine.cpu.layer_kernels import LayerKernels, library
from support.plain_layers import PLACES, layer_make, normed, product, turned

# What vLLM imports warns of its own future.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LAYERS, HEADS, KEPT, SIZE, WIDTH, TOKENS = 3, 6, 2, 32, 48, 32
LENGTHS = [1, 2, 31, 32, 33, 40, 50, 7]  # each with the token of the step


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Functions: a DecodingStep over layers by hand, for a batch that vLLM's context would say."""
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadata

    from gpu_runtime.engine.cpu import decoding_step as module

    def made(
        layers: list[SimpleNamespace], lengths: list[int], blocks: Tensor, **changes: Any
    ) -> Any:
        lengths_N = torch.tensor(lengths, dtype=torch.int32)
        places = lengths_N.long() - 1
        slots = blocks.gather(1, places[:, None] // TOKENS)[:, 0] * TOKENS + places % TOKENS
        batch = CPUAttentionMetadata(
            num_actual_tokens=len(lengths), max_query_len=1, query_start_loc=torch.arange(len(lengths) + 1),
            max_seq_len=max(lengths), seq_lens=lengths_N, block_table=blocks.int(), slot_mapping=slots,
            scheduler_metadata=None,
        )  # fmt: skip
        for name, value in changes.items():
            setattr(batch, name, value)
        names = [layer.self_attn.attn.layer_name for layer in layers]
        context = SimpleNamespace(
            attn_metadata=dict.fromkeys(names, batch), slot_mapping=dict.fromkeys(names, slots)
        )
        monkeypatch.setattr(module, "get_forward_context", lambda: context)
        return module.DecodingStep([LayerKernels(library(), layer) for layer in layers])

    return made


def layers_make(blocks: int, heads: int = HEADS) -> list[SimpleNamespace]:
    torch.manual_seed(0)
    layers = [layer_make(width=WIDTH, heads=heads, kept=KEPT, size=SIZE) for _ in range(LAYERS)]
    for number, layer in enumerate(layers):
        layer.self_attn.attn = SimpleNamespace(
            layer_name=str(number), kv_cache=torch.randn(blocks, KEPT, TOKENS, 2 * SIZE), num_heads=heads,
            num_kv_heads=KEPT, head_size=SIZE, impl=SimpleNamespace(scale=0.4),
        )  # fmt: skip
    return layers


def cached(layer: SimpleNamespace) -> tuple[Tensor, Tensor]:
    """Keys and values as views [blocks, heads, tokens, D] of the layer's cache."""
    cache = layer.self_attn.attn.kv_cache
    halves = cache.view(len(cache), KEPT, 2, TOKENS * SIZE)
    return (
        halves[:, :, 0].unflatten(-1, (SIZE, TOKENS)).transpose(-1, -2),
        halves[:, :, 1].unflatten(-1, (TOKENS, SIZE)),
    )


def expected_of(
    layers: list[SimpleNamespace], hidden: Tensor, lengths: list[int], blocks: Tensor
) -> Tensor:
    """The layers' output plus the residual, in float64; their caches get the step's keys and
    values.
    """
    total = hidden.double()
    for layer in layers:
        attention, mlp, queries = layer.self_attn, layer.mlp, layer.self_attn.num_heads
        heads = product(normed(total, layer.input_layernorm), attention.qkv_proj).view(
            -1, queries + 2 * KEPT, SIZE
        )
        positions = torch.tensor(lengths) - 1
        both = turned(heads[:, : queries + KEPT], attention.rotary_emb.cos_sin_cache, positions)
        attended, (keys, values) = [], cached(layer)
        for row, length in enumerate(lengths):
            block, place = blocks[row, (length - 1) // TOKENS], (length - 1) % TOKENS
            keys[block, :, place] = both[row, queries:].float()
            values[block, :, place] = heads[row, queries + KEPT :].float()
            key, value = (
                each[blocks[row]].transpose(1, 2).flatten(0, 1)[:length].double()
                for each in (keys, values)
            )
            key, value = (each.repeat_interleave(queries // KEPT, 1) for each in (key, value))
            weights = (0.4 * torch.einsum("hd,thd->ht", both[row, :queries], key)).softmax(-1)
            attended.append(torch.einsum("ht,thd->hd", weights, value).flatten())
        total = total + product(torch.stack(attended), attention.o_proj)
        gate, up = product(normed(total, layer.post_attention_layernorm), mlp.gate_up_proj).chunk(
            2, -1
        )
        total = total + product(silu(gate) * up, mlp.down_proj)
    return total


def blocks_of(rows: int) -> Tensor:
    """Two blocks for each row, in no order, and none twice."""
    return torch.randperm(2 * rows, generator=torch.Generator().manual_seed(1)).view(rows, 2)


@pytest.mark.system
@pytest.mark.parametrize("shared", [1, 2, 3, 4, 5])
def test_every_sequence_attends_to_its_own_tokens_through_all_layers(step, shared):
    layers, blocks = layers_make(2 * len(LENGTHS), heads=shared * KEPT), blocks_of(len(LENGTHS))
    hidden = torch.randn(len(LENGTHS), WIDTH)
    others = [layer.self_attn.attn.kv_cache.clone() for layer in layers]
    positions = torch.tensor(LENGTHS) - 1
    assert max(LENGTHS) <= PLACES
    out, residual = step(layers, LENGTHS, blocks)(hidden.clone(), positions)
    kept = [layer.self_attn.attn.kv_cache.clone() for layer in layers]
    for layer, before in zip(layers, others, strict=True):
        layer.self_attn.attn.kv_cache.copy_(before)
    torch.testing.assert_close(
        (out + residual).double(),
        expected_of(layers, hidden, LENGTHS, blocks),
        rtol=1e-4,
        atol=1e-4,
    )
    for layer, found, before in zip(layers, kept, others, strict=True):
        torch.testing.assert_close(found, layer.self_attn.attn.kv_cache, rtol=1e-4, atol=1e-4)
        assert (found != before).sum() <= len(LENGTHS) * KEPT * 2 * SIZE  # the rest is as it was


@pytest.mark.system
def test_a_sequence_has_the_same_bits_alone_and_among_others(step):
    layers, blocks, hidden = (
        layers_make(2 * len(LENGTHS)),
        blocks_of(len(LENGTHS)),
        torch.randn(len(LENGTHS), WIDTH),
    )
    positions = torch.tensor(LENGTHS) - 1
    together = step(layers, LENGTHS, blocks)(hidden.clone(), positions)
    for row, length in enumerate(LENGTHS):
        alone = step(layers, [length], blocks[row : row + 1])(
            hidden[row : row + 1].clone(), positions[row : row + 1]
        )
        assert all(
            torch.equal(one[0], among[row]) for one, among in zip(alone, together, strict=True)
        )


@pytest.mark.system
def test_large_scores_and_what_is_not_a_number(step):
    layers, blocks, hidden = layers_make(4), blocks_of(2), torch.randn(2, WIDTH)
    keys, _ = cached(layers[0])
    keys *= 1e4
    keys[blocks[1, 0], 0, 3, 5] = torch.nan
    out, residual = step(layers, [40, 40], blocks)(hidden, torch.tensor([39, 39]))
    assert (out + residual).isfinite().all(dim=1).tolist() == [True, False]


@pytest.mark.system
@pytest.mark.parametrize(
    "changes",
    [
        {"max_query_len": 2},
        {"causal": False},
        {"num_actual_tokens": 3},
        {"dynamic_causal": torch.ones(2)},
    ],
)
def test_a_batch_of_another_kind_is_left_to_the_layers(step, changes):
    layers, blocks = layers_make(4), blocks_of(2)
    assert (
        step(layers, [3, 40], blocks, **changes)(torch.randn(2, WIDTH), torch.tensor([2, 39]))
        is None
    )
