"""Linear layers through oneDNN say what torch's own say, and so do their gradients."""

import pytest
import torch
from torch import nn

from gpu_runtime.training.cpu.onednn_linear import linear_layers_use_onednn, products


def outcome(layer: nn.Linear, inputs: torch.Tensor) -> list[torch.Tensor]:
    inputs = inputs.clone().requires_grad_()
    output = layer(inputs)
    output.cos().sum().backward()
    grads = [parameter.grad.clone() for parameter in layer.parameters() if parameter.requires_grad]
    layer.zero_grad()
    return [output.detach(), inputs.grad, *grads]


@pytest.mark.parametrize("shape", [(1, 5), (3, 7, 5), (257, 5), (0, 5)])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(1)
    layer, inputs = nn.Linear(5, 11, bias=bias), torch.randn(shape)
    expected = outcome(layer, inputs)
    linear_layers_use_onednn(layer)
    assert "forward" in vars(layer), "taken over"
    for found, wanted in zip(outcome(layer, inputs), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_what_a_layer_returns_may_be_changed_in_place() -> None:
    layer, inputs = nn.Linear(5, 11), torch.randn(2, 7, 5)

    def scaled() -> torch.Tensor:
        output = layer(inputs)
        output *= 3.0
        output.square().sum().backward()
        grad, layer.weight.grad = layer.weight.grad, None
        return grad

    expected = scaled()
    linear_layers_use_onednn(layer)
    torch.testing.assert_close(scaled(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(33, 96, 8), (200, 576, 4), (3, 64, 16)])
def test_a_narrow_weight_has_the_gradient_of_any_other(shape: tuple[int, int, int]) -> None:
    """Such as an adapter's B, of as few columns as its rank."""
    tokens, rows, columns = shape
    layer = nn.Linear(columns, rows, bias=False)
    inputs, slopes = torch.randn(tokens, columns), torch.randn(tokens, rows)
    layer(inputs).backward(slopes)
    expected, layer.weight.grad = layer.weight.grad, None
    linear_layers_use_onednn(layer)
    layer(inputs).backward(slopes)
    assert layer.weight.grad.is_contiguous()
    torch.testing.assert_close(layer.weight.grad, expected)


def test_a_frozen_layer_gets_no_gradient() -> None:
    layer = nn.Linear(4, 4).requires_grad_(False)
    linear_layers_use_onednn(layer)
    inputs = torch.randn(2, 4, requires_grad=True)
    layer(inputs).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(inputs.grad, layer.weight.sum(dim=0).expand(2, 4))


def test_other_types_and_other_layers_are_left_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 2).bfloat16(), nn.Embedding(3, 2))
    linear_layers_use_onednn(model)
    assert all("forward" not in vars(module) for module in model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_groups_are_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    left, right = torch.randn(3, 5, 7, dtype=dtype), torch.randn(3, 4, 7, dtype=dtype)
    torch.testing.assert_close(products(left, right), left @ right.mT)
    torch.testing.assert_close(products(left, right.mT.contiguous().mT), left @ right.mT)
