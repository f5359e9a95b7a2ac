"""Of a token that was sampled under a grammar: the set of token ids that the grammar left to choose
from.

A set is packed as a bit for each id of the vocabulary, the lowest bit of the first byte first,
compressed by zlib. None stands for all ids. The sets of an answer repeat (inside a string they are
all the same one), so lists of them are kept as the different ones and a number for each token.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache

AllowedSet = bytes
UNKNOWN: AllowedSet = b""  # a grammar chose, and what it left was not recorded
ALL = -1  # the number that stands for None


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
