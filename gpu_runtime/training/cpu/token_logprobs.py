"""Log-probabilities of a row's targets on a CPU, a block of positions at a time, with a derivative of their own.

torch's logsumexp, and its derivative, read and write the logits of all positions once for each of their operations:
of a small model with a large vocabulary they take as long as the products of the head. A block of positions stays in
the processor's caches through all of them. Sums and exponentials are the same ones: results differ by float32's
rounding, gradients not at all or by that.

Shapes: K positions, V the vocabulary, z = logits / T, p = softmax(z).
    logp_k = z[k, target_k] - logsumexp(z[k]),    d logp_k / d logits[k, v] = ([v = target_k] - p[k, v]) / T_k
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# A block of this many logits is 1 MiB in float32: about what a core's own cache holds.
BLOCK = 1 << 18


class TokenLogprobs(torch.autograd.Function):
    """``[K]`` of logits ``[K, V]``, targets ``[K]`` and temperatures ``[K]`` or None; has no second derivative."""

    @staticmethod
    def forward(ctx: Any, logits_KV: Tensor, target_K: Tensor, temperature_K: Tensor | None) -> Tensor:
        total_K = logits_KV.new_empty(len(logits_KV))
        for part in _blocks(logits_KV):
            z_kV = _divided(logits_KV[part], temperature_K, part)
            largest_k1 = z_kV.amax(dim=1, keepdim=True)
            total_K[part] = torch.sub(z_kV, largest_k1).exp_().sum(dim=1).log_().add_(largest_k1[:, 0])
        ctx.save_for_backward(logits_KV, target_K, temperature_K, total_K)
        chosen_K = logits_KV.gather(1, target_K[:, None])[:, 0]
        return (chosen_K if temperature_K is None else chosen_K / temperature_K) - total_K

    @staticmethod
    def backward(ctx: Any, grad_K: Tensor) -> tuple[Tensor, None, None]:
        logits_KV, target_K, temperature_K, total_K = ctx.saved_tensors
        if temperature_K is not None:
            grad_K = grad_K / temperature_K
        found_KV = torch.empty_like(logits_KV)
        for part in _blocks(logits_KV):
            z_kV = _divided(logits_KV[part], temperature_K, part)
            torch.sub(z_kV, total_K[part, None], out=found_KV[part]).exp_().mul_(-grad_K[part, None])
        found_KV.scatter_add_(1, target_K[:, None], grad_K[:, None])
        return found_KV, None, None


def _blocks(logits_KV: Tensor) -> Iterator[slice]:
    positions, vocabulary = logits_KV.shape
    step = max(1, BLOCK // max(1, vocabulary))
    return (slice(first, first + step) for first in range(0, positions, step))


def _divided(logits_kV: Tensor, temperature_K: Tensor | None, part: slice) -> Tensor:
    return logits_kV if temperature_K is None else logits_kV / temperature_K[part, None]
