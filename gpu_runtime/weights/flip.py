"""A change of weights that undoes itself bit by bit, and that no form of a layer hides; and a
digest of bits.

A factor for all weights is no proof of a hand-over: a projection whose output is normalised
(queries and keys of Qwen3 and OLMo 2, nearly every layer of Gemma 2 and 3) computes the same with
half of its weights, and a bias of zeros stays. Nor may the change be large: exponents flipped in
SmolLM2-135M make bfloat16 differ from float32 by a KL of 2, and these flips by the 0.002 of the
model as it is, while each stale projection in float32 is a KL above 9e-5.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

EVERY = 7  # no width of a layer is a multiple, so that each row and each column has its part
PIECE = 1 << 20  # weights whose bits are widened at a time: 8 MiB
BITS = {2: torch.int16, 4: torch.int32}  # by the bytes of a weight, bfloat16 or float32
QUARTER = {2: 1 << 5, 4: 1 << 21}  # of the mantissa: 1 becomes 1.25, 1.25 becomes 1
# 0.0625 and one bit more, so that no weight is likely to have it; one that does becomes 0 and comes back.
MARK = {2: 0x3D81, 4: 0x3D800001}


@torch.no_grad()
def weights_flip(parts: Iterable[Tensor]) -> None:
    """Change each tensor in place; a second call puts every bit back.

    Every seventh weight changes by 12 to 25%; the one after it becomes 0.0625 where it is 0.
    """
    for part in parts:
        size = part.element_size()
        bits = part.detach().view(-1).view(BITS[size])
        bits[::EVERY] ^= QUARTER[size]
        others = bits[1::EVERY]
        zero, mark = others == 0, others == MARK[size]
        others.masked_fill_(zero, MARK[size]).masked_fill_(mark, 0)


def local_part(weight: Tensor) -> Tensor:
    """What this rank has of a weight."""
    part: Tensor = getattr(weight, "ds_tensor", weight)
    return part.data


def each_unflipped(
    named_parts: Sequence[tuple[str, Tensor]], score: Callable[[], list[float]]
) -> Iterator[tuple[str, list[float]]]:
    """While all weights are flipped: what ``score`` returns with one of them as it was, and with
    the weights of one module (attention, MLP) as they were, which an engine may keep as one. The
    parts are flipped again after each.
    """
    groups: dict[str, list[Tensor]] = {name: [part] for name, part in named_parts}
    for name, part in named_parts:
        if module := ".".join(name.split(".")[:-2]):
            groups.setdefault(module, []).append(part)
    for name, parts in groups.items():
        weights_flip(parts)
        yield name, score()
        weights_flip(parts)


@torch.no_grad()
def weights_digest(parts: Iterable[Tensor], device: torch.device) -> Tensor:
    """Two int64 numbers that depend on every bit; those of ranks can be added up."""
    digest = torch.zeros(2, dtype=torch.int64, device=device)
    for number, part in enumerate(parts, start=1):
        for piece in part.detach().view(-1).view(BITS[part.element_size()]).split(PIECE):
            bits = piece.to(torch.int64)
            digest[0] += number * bits.sum()
            digest[1] += number * bits.square_().sum()  # int64 wraps around: a checksum
    return digest
