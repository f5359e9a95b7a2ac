"""A layer but for its attention: the formulas in float64, for few rows and many, in the same bits
alone or not.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from gpu_runtime.engine.cpu import layer_kernels as module
from gpu_runtime.engine.cpu.layer_kernels import LayerKernels, layer_kernels, library
from gpu_runtime.native.compiled import SIDE
from gpu_runtime.weights.packed_linear import panels_write
from support.plain_layers import PLACES, layer_make, linear, normed, product, turned

ROWS = [1, 3, 7, 16, 17, 200]


@pytest.fixture(scope="module")
def layer() -> SimpleNamespace:
    torch.manual_seed(0)
    return layer_make()


@pytest.fixture(scope="module")
def kernels(layer) -> LayerKernels:
    return LayerKernels(library(), layer)


def near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("rows", ROWS)
def test_before_attention_queries_and_keys_are_turned_by_their_positions_and_values_are_not(
    layer, kernels, rows
):
    torch.manual_seed(rows)
    hidden, residual, positions = (
        torch.randn(rows, 48),
        torch.randn(rows, 48),
        torch.randint(PLACES, (rows,)),
    )
    total = hidden + residual
    attention, given = layer.self_attn, hidden.clone()
    expected = product(normed(total.double(), layer.input_layernorm), attention.qkv_proj).view(
        rows, 7, 32
    )
    expected[:, :5] = turned(expected[:, :5], attention.rotary_emb.cos_sin_cache, positions)
    near(kernels.before_attention(hidden, residual, positions), expected.flatten(1))
    assert torch.equal(residual, total)
    assert torch.equal(hidden, given)


@pytest.mark.parametrize("rows", ROWS)
def test_after_attention_its_output_is_in_the_residual_and_the_layers_is_returned(
    layer, kernels, rows
):
    torch.manual_seed(rows)
    attended, residual = torch.randn(rows, 96), 30 * torch.randn(rows, 48)
    total = residual.double() + product(attended.double(), layer.self_attn.o_proj)
    gate, up = product(normed(total, layer.post_attention_layernorm), layer.mlp.gate_up_proj).chunk(
        2, -1
    )
    found = kernels.after_attention(attended, residual)
    near(residual, total)
    near(found, product(silu(gate) * up, layer.mlp.down_proj))


def test_gates_of_any_size_and_what_is_not_a_number(layer):
    """exp of a large number would be infinite; a number that is none must not become one."""
    large = layer_make()
    large.mlp.gate_up_proj = linear(192, 48)
    large.mlp.gate_up_proj.weight *= 300
    panels_write(list(large.mlp.gate_up_proj.cpu_linear.jobs([large.mlp.gate_up_proj.weight])))
    attended, residual = torch.randn(20, 96), torch.randn(20, 48)
    attended[4, 5] = torch.nan
    total = residual.double() + product(attended.double(), large.self_attn.o_proj)
    gate, up = product(normed(total, large.post_attention_layernorm), large.mlp.gate_up_proj).chunk(
        2, -1
    )
    found = LayerKernels(library(), large).after_attention(attended, residual)
    expected = product(silu(gate) * up, large.mlp.down_proj)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0.5, equal_nan=True)
    assert expected.abs().nan_to_num(0).max() > 1e4
    assert found.isnan().any(dim=1).tolist() == [row == 4 for row in range(20)]


def test_a_row_has_the_same_bits_alone_and_among_others(kernels):
    torch.manual_seed(5)
    hidden, attended, residual = torch.randn(150, 48), torch.randn(150, 96), torch.randn(150, 48)
    positions = torch.randint(PLACES, (150,))

    def both(rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        kept = residual[rows].clone()
        heads = kernels.before_attention(hidden[rows].clone(), kept, positions[rows])
        return heads, kernels.after_attention(attended[rows].clone(), kept), kept

    together = both(slice(150))
    for rows in (slice(70, 71), slice(3, 19), slice(0, 40)):
        assert all(
            torch.equal(alone, among[rows])
            for alone, among in zip(both(rows), together, strict=True)
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"is_neox_style": False}, {"rotary_dim": 16}, {"size": 3 * SIDE}, {"width": 5 * SIDE // 2}, {"inner": 100},
        {"cos_sin_cache": torch.zeros(4, 32, dtype=torch.bfloat16)}, {"cos_sin_cache": torch.zeros(32, 4).T},
    ],
)  # fmt: skip
def test_a_layer_of_another_shape_is_left_to_vllm(monkeypatch, changes):
    monkeypatch.setattr(module, "is_suited", lambda: True)
    assert layer_kernels(layer_make()) is not None
    assert layer_kernels(layer_make(**changes)) is None


def test_a_layer_that_multiplies_otherwise_is_left_to_vllm(monkeypatch, layer):
    monkeypatch.setattr(module, "is_suited", lambda: True)
    mixed = layer_make()
    mixed.mlp.down_proj.cpu_linear = torch.nn.functional.linear
    assert layer_kernels(mixed) is None


def test_another_processor_or_no_compiler_leaves_it_to_vllm(monkeypatch, layer):
    monkeypatch.setattr(module, "is_suited", lambda: False)
    assert layer_kernels(layer) is None
    monkeypatch.setattr(module, "is_suited", lambda: True)
    monkeypatch.setattr(module, "compiled", lambda _: None)
    assert layer_kernels(layer) is None
