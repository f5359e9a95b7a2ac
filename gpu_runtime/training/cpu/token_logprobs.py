"""Log-probabilities of a row's targets on a CPU, a block of positions at a time, with a derivative
of their own.

torch's logsumexp, and its derivative, read and write the logits of all positions once for each of
their operations: of a small model with a large vocabulary they take as long as the products of the
head. Its softmax does a row in one pass, and a block of rows stays in the processor's caches for
what follows. Results differ from the plain formula by float32's rounding.

Shapes: K positions, V the vocabulary, z = logits / T, p = softmax(z).
    logp_k = z[k, target_k] - logsumexp(z[k]),    d logp_k / d logits[k, v] = ([v = target_k] - p[k, v]) / T_k
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# A block of this many logits is 8 MiB in float32: the cores' shared cache holds it, and each of
# them has rows enough.
BLOCK = 1 << 21


class TokenLogprobs(torch.autograd.Function):
    """``[K]`` of logits ``[K, V]``, targets ``[K]`` and temperatures ``[K]`` or None; has no second
    derivative.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_KV: Tensor, target_K: Tensor, temperature_K: Tensor | None
    ) -> Tensor:
        logprobs_K = logits_KV.new_empty(len(logits_KV))
        for part in _blocks(logits_KV):
            logprobs_kV = _divided(logits_KV[part], temperature_K, part).log_softmax(dim=1)
            logprobs_K[part] = logprobs_kV.gather(1, target_K[part, None])[:, 0]
        ctx.save_for_backward(logits_KV, target_K, temperature_K)
        return logprobs_K

    @staticmethod
    def backward(ctx: Any, grad_K: Tensor) -> tuple[Tensor, None, None]:
        logits_KV, target_K, temperature_K = ctx.saved_tensors
        if temperature_K is not None:
            grad_K = grad_K / temperature_K
        found_KV = torch.empty_like(logits_KV)
        for part in _blocks(logits_KV):
            z_kV = _divided(logits_KV[part], temperature_K, part)
            torch.softmax(z_kV, dim=1, out=found_KV[part]).mul_(-grad_K[part, None])
        found_KV.scatter_add_(1, target_K[:, None], grad_K[:, None])
        return found_KV, None, None


def _blocks(logits_KV: Tensor) -> Iterator[slice]:
    positions, vocabulary = logits_KV.shape
    step = max(1, BLOCK // max(1, vocabulary))
    return (slice(first, first + step) for first in range(0, positions, step))


def _divided(logits_kV: Tensor, temperature_K: Tensor | None, part: slice) -> Tensor:
    return logits_kV if temperature_K is None else logits_kV / temperature_K[part, None]
