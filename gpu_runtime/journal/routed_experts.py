"""Of a token that a mixture of experts sampled: which experts of each layer computed it.

A row has the numbers of the chosen experts, layer after layer: a byte each, or two (little-endian)
where a layer has more than 256 experts. They are those of the pass that sampled the token, so of
the position before it. None stands for a token without a record.
"""

import zlib
from collections.abc import Sequence

Experts = bytes
FAST = 1  # numbers of experts are nearly random: more effort gains nothing


def experts_pack(experts_T: Sequence[Experts | None]) -> bytes:
    """The rows of an answer, all of one length, compressed."""
    has = bytes(each is not None for each in experts_T)
    return zlib.compress(has + b"".join(each for each in experts_T if each is not None), FAST)


def experts_unpack(packed: bytes, count: int) -> tuple[Experts | None, ...]:
    """What ``experts_pack`` packed of ``count`` tokens."""
    data = zlib.decompress(packed)
    has, rows = data[:count], data[count:]
    width = len(rows) // max(1, sum(has))
    starts = iter(range(0, len(rows), max(1, width)))
    return tuple(
        rows[at : at + width] if each and (at := next(starts)) >= 0 else None for each in has
    )
