"""What lies between the products of a layer: torch's formulas for few rows and many, in the same bits alone or not."""

from types import SimpleNamespace

import pytest
import torch

from gpu_runtime.engine.cpu import layer_kernels as module
from gpu_runtime.engine.cpu.layer_kernels import LayerKernels, layer_kernels
from gpu_runtime.native.compiled import compiled

ROWS = [1, 7, 16, 200]


@pytest.fixture(scope="module")
def kernels() -> LayerKernels:
    return LayerKernels(compiled("layer"))


@pytest.mark.parametrize("rows", ROWS)
def test_a_norm_is_that_of_the_sum_and_the_sum_is_kept(kernels, rows):
    torch.manual_seed(rows)
    x, residual, weight = torch.randn(rows, 96), torch.randn(rows, 96), torch.randn(96)
    total = x.double() + residual.double()
    expected = total / (total.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * weight.double()
    kept = x + residual
    kernels.add_and_norm(x, residual, weight, 1e-5)
    assert torch.equal(residual, kept)
    torch.testing.assert_close(x.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", ROWS)
def test_silu_of_the_gate_times_the_rest(kernels, rows):
    torch.manual_seed(rows)
    both = 20 * torch.randn(rows, 96)
    both[0, :4] = torch.tensor([0.0, -200.0, 200.0, torch.nan])
    gate, up = both.double().chunk(2, -1)
    found = kernels.silu_and_mul(both)
    torch.testing.assert_close(
        found.double(), torch.nn.functional.silu(gate) * up, rtol=1e-6, atol=1e-6, equal_nan=True
    )
    assert found[0, 3].isnan()


@pytest.mark.parametrize("rows", ROWS)
def test_queries_and_keys_are_turned_by_their_positions_and_values_stay(kernels, rows):
    torch.manual_seed(rows)
    heads, size, places = 3, 32, 50
    rows_N, positions = torch.randn(rows, 4 * size), torch.randint(places, (rows,))
    angles = torch.arange(places)[:, None] * 0.9 ** torch.arange(size // 2)
    turns = torch.cat([angles.cos(), angles.sin()], dim=1)
    expected = rows_N.clone().double().view(rows, 4, size)
    low, high = expected.chunk(2, -1)
    cosine, sine = (each[positions][:, None].double() for each in turns.chunk(2, -1))
    expected[:, :heads] = torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)[:, :heads]
    kernels.rotate(rows_N, positions, turns, heads)
    torch.testing.assert_close(rows_N.double(), expected.flatten(1), rtol=1e-6, atol=1e-6)


def test_a_row_has_the_same_bits_alone_and_among_others(kernels):
    x, residual, weight = torch.randn(150, 64), torch.randn(150, 64), torch.randn(64)
    both, alone = (x.clone(), residual.clone()), (x[70:71].clone(), residual[70:71].clone())
    kernels.add_and_norm(*both, weight, 1e-6)
    kernels.add_and_norm(*alone, weight, 1e-6)
    assert torch.equal(both[0][70:71], alone[0])
    assert torch.equal(kernels.silu_and_mul(x)[70:71], kernels.silu_and_mul(x[70:71]))


def a_layer(**changes: object) -> SimpleNamespace:
    """What is asked of vLLM's layer."""
    rotary = {"is_neox_style": True, "rotary_dim": 32, "head_size": 32, "cos_sin_cache": torch.zeros(4, 32)}
    rotary |= {name: changes.pop(name) for name in list(changes) if name in rotary}
    fields = {"head_dim": 32, "width": 64, "inner": 96} | changes
    return SimpleNamespace(
        self_attn=SimpleNamespace(head_dim=fields["head_dim"], rotary_emb=SimpleNamespace(**rotary)),
        input_layernorm=SimpleNamespace(weight=torch.zeros(fields["width"])),
        mlp=SimpleNamespace(down_proj=SimpleNamespace(input_size=fields["inner"])),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"is_neox_style": False}, {"rotary_dim": 16}, {"head_dim": 48, "head_size": 48, "rotary_dim": 48},
        {"width": 40}, {"inner": 100}, {"cos_sin_cache": torch.zeros(4, 32, dtype=torch.bfloat16)},
        {"cos_sin_cache": torch.zeros(32, 4).T},
    ],
)  # fmt: skip
def test_a_layer_of_another_shape_is_left_to_vllm(monkeypatch, changes):
    monkeypatch.setattr(module, "is_suited", lambda: True)
    assert layer_kernels(a_layer()) is not None
    assert layer_kernels(a_layer(**changes)) is None


def test_another_processor_or_no_compiler_leaves_it_to_vllm(monkeypatch):
    monkeypatch.setattr(module, "is_suited", lambda: False)
    assert layer_kernels(a_layer()) is None
    monkeypatch.setattr(module, "is_suited", lambda: True)
    monkeypatch.setattr(module, "compiled", lambda _: None)
    assert layer_kernels(a_layer()) is None
