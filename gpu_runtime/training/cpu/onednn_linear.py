"""Linear layers of a trainer on a CPU, and attention's products: y = x W^T + b and its derivatives
through oneDNN.

torch multiplies float32 matrices with MKL, which uses half of what an AVX-512 processor of another maker can do;
oneDNN, which comes with torch, asks the processor. On an AMD EPYC the products of a small model's layers take 0.4 to
0.5 of the time, forward and backward. Sums run in another order, so results differ by float32's rounding.

Shapes: x ``[..., K]``, W ``[N, K]``, y and its gradient g ``[..., N]``:  dx = g W,  dW = g^T x,  db = sum of g.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

NARROW = 4  # a weight is narrow if it has at least so many rows for each of its columns


class OneDnnLinear(torch.autograd.Function):
    """inputs weight^T + bias by oneDNN; has a first derivative and no second."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return _product(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        grad_2, inputs_2 = grad.reshape(-1, grad.shape[-1]), inputs.reshape(-1, inputs.shape[-1])
        return (
            _product(grad, weight.t()) if needs_input else None,
            _weight_grad(grad_2, inputs_2) if needs_weight else None,
            grad_2.sum(dim=0) if needs_bias else None,
        )


def linear_layers_use_onednn(model: nn.Module) -> None:
    """Let every float32 ``nn.Linear`` of ``model`` compute so; names and parameters stay as they
    are.
    """
    if not torch.backends.mkldnn.is_available():
        return
    for module in model.modules():
        if type(module) is nn.Linear and module.weight.dtype == torch.float32:
            module.forward = partial(_forward, module)  # type: ignore[method-assign]  # of this one layer, not of its class


def products(left_GMK: Tensor, right_GNK: Tensor) -> Tensor:
    """``left right^T`` of each group, ``[G, M, N]``; for attention's products, without derivatives
    of its own.

    A transposed ``left`` gains nothing here: torch.bmm is as fast.
    """
    if left_GMK.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return torch.bmm(left_GMK, right_GNK.mT)
    return torch.stack(
        [_product(left, right) for left, right in zip(left_GMK, right_GNK, strict=True)]
    )


def _forward(module: nn.Linear, inputs: Tensor) -> Tensor:
    if inputs.numel() == 0 or inputs.dtype != torch.float32:
        return nn.functional.linear(inputs, module.weight, module.bias)
    # Rows in, rows out: of other shapes the operator returns a view, which no model may change in
    # place (Gemma 3n scales its projections so) when it comes out of a Function.
    rows = OneDnnLinear.apply(inputs.reshape(-1, inputs.shape[-1]), module.weight, module.bias)
    return rows.view(*inputs.shape[:-1], rows.shape[-1])


def _weight_grad(grad_MN: Tensor, inputs_MK: Tensor) -> Tensor:
    """g^T x, ``[N, K]``. Of an adapter's B, whose K is its rank, (x^T g)^T has the same bits in a
    third to a seventh of the time: oneDNN wants the short side as rows.
    """
    if inputs_MK.shape[1] * NARROW <= grad_MN.shape[1]:
        return _product(inputs_MK.t(), grad_MN.t()).t().contiguous()
    return _product(grad_MN.t(), inputs_MK.t())


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``rows weight^T + bias``; either may be a transposed view. The operator behind torch's own
    compiled linears.
    """
    return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")  # noqa: SLF001 - an operator of torch's
