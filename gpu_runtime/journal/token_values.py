"""What is kept of single tokens, and the bytes that it is kept as.

- Ids, versions and log-probabilities as numbers of 32 bits. Of the trainer's own log-probabilities
  NaN stands for None.
- Of a token that was sampled under a grammar: the set of token ids that the grammar left to choose
  from, a bit for each id of the vocabulary, the lowest bit of the first byte first, compressed by
  zlib. None stands for all ids. The sets of an answer repeat (inside a string they are all the same
  one), so lists of them are kept as the different ones and a number for each token.
- Of a token that a mixture of experts sampled: which experts of each layer computed it. A row has
  the numbers of the chosen experts, layer after layer: a byte each, or two (little-endian) where a
  layer has more than 256 experts. They are those of the pass that sampled the token, so of the
  position before it. None stands for a token without a record.
"""

import array
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

AllowedSet = bytes
UNKNOWN: AllowedSet = b""  # a grammar chose, and what it left was not recorded
ALL = -1  # the number that stands for None
Experts = bytes
FAST = 1  # numbers of experts are nearly random: more effort gains nothing
AnswerKey = tuple[str, int]  # id of a call, which of its answers
# of each token of an answer; None where it has none
TokenValues = Mapping[AnswerKey, tuple[float | None, ...]]
NO_VALUES: TokenValues = MappingProxyType({})


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids or versions as int32."""
    return array.array("i", ids).tobytes()


def unpack_ids(blob: bytes) -> tuple[int, ...]:
    """What ``pack_ids`` packed."""
    return tuple(memoryview(blob).cast("i"))


def pack_floats(values: Sequence[float]) -> bytes:
    """Log-probabilities as float32, the precision in which the engine computed them."""
    return array.array("f", values).tobytes()


def unpack_floats(blob: bytes) -> tuple[float, ...]:
    """What ``pack_floats`` packed."""
    return tuple(memoryview(blob).cast("f"))


def floats_pack(values: Sequence[float | None]) -> bytes:
    """As float32; NaN stands for None."""
    return pack_floats([math.nan if value is None else value for value in values])


def floats_unpack(blob: bytes) -> tuple[float | None, ...]:
    """What ``floats_pack`` packed."""
    return tuple(None if math.isnan(value) else value for value in unpack_floats(blob))


def set_pack(bits: bytes) -> AllowedSet:
    """The set whose bits these are."""
    return zlib.compress(bits)


@lru_cache(maxsize=4096)
def set_bits(packed: AllowedSet) -> bytes:
    """What ``set_pack`` packed; nothing for UNKNOWN."""
    return zlib.decompress(packed) if packed else b""


@lru_cache(maxsize=4096)
def set_size(packed: AllowedSet) -> int:
    """How many ids are in it; 0 for UNKNOWN."""
    return int.from_bytes(set_bits(packed), "little").bit_count()


def sets_number(allowed_T: Sequence[AllowedSet | None]) -> tuple[list[int], list[AllowedSet]]:
    """(number of each token's set in the list, ALL where there is none; the different sets)."""
    numbers: dict[AllowedSet, int] = {}
    numbers_T = [
        ALL if each is None else numbers.setdefault(each, len(numbers)) for each in allowed_T
    ]
    return numbers_T, list(numbers)


def sets_spread(
    numbers_T: Sequence[int], sets: Sequence[AllowedSet]
) -> tuple[AllowedSet | None, ...]:
    """What ``sets_number`` was given."""
    return tuple(None if number == ALL else sets[number] for number in numbers_T)


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
