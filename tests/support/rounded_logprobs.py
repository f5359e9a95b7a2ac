"""Log-probabilities of one small model by two kernels: an engine in bfloat16, and a trainer that
rounds elsewhere.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

SEQUENCES, LENGTH, WIDTH, VOCABULARY, LAYERS = 24, 32, 64, 96, 4


@dataclass(frozen=True)
class Rounded:
    """Of K tokens that the engine sampled."""

    engine_K: Tensor
    trainer_K: Tensor
    advantages_K: Tensor
    sample_K: Tensor


@cache
def rounded() -> Rounded:
    """Sampled once by the engine; the trainer's layers are the same weights, computed in another
    order.
    """
    generator = torch.Generator().manual_seed(11)
    weights = [torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5 for _ in range(LAYERS)]
    embedding, head = (
        torch.randn(VOCABULARY, WIDTH, generator=generator),
        torch.randn(WIDTH, VOCABULARY, generator=generator),
    )
    ids_SL = torch.randint(VOCABULARY, (SEQUENCES, LENGTH), generator=generator)
    logits = [_logits(embedding[ids_SL], weights, head * 0.4, parts).float() for parts in (1, 4)]
    engine, trainer = (each.log_softmax(-1) for each in logits)
    drawn = torch.multinomial(engine.exp().flatten(0, 1), 1, generator=generator).reshape(
        SEQUENCES, LENGTH, 1
    )
    engine_K, trainer_K = (each.gather(2, drawn).flatten() for each in (engine, trainer))
    advantages_S = torch.randn(SEQUENCES, generator=generator)
    sample_K = torch.arange(SEQUENCES).repeat_interleave(LENGTH)
    return Rounded(engine_K, trainer_K, advantages_S[sample_K], sample_K)


def _logits(hidden: Tensor, weights: list[Tensor], head: Tensor, parts: int) -> Tensor:
    """bfloat16 throughout; a product is a sum of ``parts`` products, each rounded."""
    hidden = hidden.bfloat16()
    for weight in weights:
        hidden = hidden + nn.functional.silu(_product(hidden, weight, parts))
    return _product(hidden, head, parts)


def _product(hidden: Tensor, weight: Tensor, parts: int) -> Tensor:
    pieces = zip(hidden.chunk(parts, -1), weight.bfloat16().chunk(parts, 0), strict=True)
    return torch.stack([piece @ part for piece, part in pieces]).sum(0)
