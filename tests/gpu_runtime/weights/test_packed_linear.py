"""Linear layers over packed weights: the products that they say, in bits that the rest of a batch
does not change.
"""

import pytest
import torch

from gpu_runtime.weights.packed_linear import PackedLinear, library, linear_pack, panels_write


def packed_of(*pieces_NK: torch.Tensor) -> PackedLinear:
    """On any processor: ``linear_pack`` says where it pays."""
    shape = sum(map(len, pieces_NK)), pieces_NK[0].shape[1]
    packed = PackedLinear(library(), shape)
    panels_write(list(packed.jobs(pieces_NK)))
    return packed


@pytest.mark.parametrize("count", [1, 3, 5, 9, 16, 17, 40])
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (1, 5), (100, 7), (192, 33), (960, 576)])
def test_a_product_is_that_of_the_matrices(count, rows, columns):
    weight_NK, inputs, bias = (
        torch.randn(rows, columns),
        torch.randn(count, columns),
        torch.randn(rows),
    )
    found = packed_of(weight_NK)(inputs, torch.empty(0), bias)
    expected = inputs.double() @ weight_NK.double().T + bias.double()
    assert found.shape == (count, rows)
    assert torch.allclose(found.double(), expected, atol=5e-4, rtol=0)


def test_a_row_has_the_same_bits_alone_and_among_others():
    packed, inputs = packed_of(torch.randn(200, 96)), torch.randn(70, 96)
    together = packed(inputs, torch.empty(0), None)
    for row in range(70):
        assert torch.equal(packed(inputs[row : row + 1], torch.empty(0), None)[0], together[row])
    for first in (0, 5, 31):
        assert torch.equal(
            packed(inputs[first : first + 23], torch.empty(0), None), together[first : first + 23]
        )


def test_leading_dimensions_stay_and_a_view_is_read_as_what_it_is():
    weight_NK, inputs = torch.randn(32, 8), torch.randn(8, 6).T.reshape(2, 3, 8).transpose(0, 1)
    found = packed_of(weight_NK)(inputs, torch.empty(0), None)
    assert found.shape == (3, 2, 32)
    assert torch.allclose(found, inputs @ weight_NK.T, atol=1e-5)
    assert packed_of(weight_NK)(torch.empty(0, 8), torch.empty(0), None).shape == (0, 32)


@pytest.mark.parametrize("sizes", [(128, 64, 64), (10, 22, 32), (48, 7)])
def test_pieces_are_one_matrix_wherever_they_end_and_a_later_write_leaves_nothing_of_the_former(
    sizes,
):
    packed = packed_of(torch.full((sum(sizes), 24), 7.0))
    pieces, inputs = [torch.randn(size, 24) for size in sizes], torch.randn(5, 24)
    panels_write(list(packed.jobs(pieces)))
    assert torch.equal(
        packed(inputs, torch.empty(0), None),
        packed_of(torch.cat(pieces))(inputs, torch.empty(0), None),
    )


@pytest.mark.parametrize(
    "pieces",
    [
        [torch.ones(65, 24)], [torch.ones(63, 24)], [torch.ones(64, 25)], [torch.ones(32, 24), torch.ones(32, 23)],
        [torch.ones(64 * 24)], [torch.ones(64, 24, dtype=torch.float64)], [],
    ],
)  # fmt: skip
def test_pieces_that_are_another_matrix_are_refused_before_anything_is_written(pieces):
    with pytest.raises(ValueError, match="64 x 24"):
        list(PackedLinear(library(), (64, 24)).jobs(pieces))


def test_weights_of_another_type_or_processor_are_left_to_others(monkeypatch):
    assert linear_pack((64, 64), torch.bfloat16) is None
    for processor, can in {"AVX512": True, "AVX2": True, "DEFAULT": False}.items():
        monkeypatch.setattr(
            torch.backends.cpu, "get_cpu_capability", lambda processor=processor: processor
        )
        assert (linear_pack((64, 64), torch.float32) is not None) == can


def test_without_a_compiler_weights_are_left_to_others(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr("gpu_runtime.weights.packed_linear.compiled", lambda _: None)
    assert linear_pack((64, 64), torch.float32) is None
