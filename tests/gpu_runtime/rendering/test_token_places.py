"""How many tokens stand for a beginning of a text, found without decoding that beginning again and
again.
"""

from bisect import bisect_left
from collections.abc import Sequence

from gpu_runtime.rendering.marks import BLOCK, tokens_until

TEXT = "Ü日本\U0001f600 = 12.\n" * 60


def test_tokens_until_a_length_are_those_that_decoding_each_beginning_finds() -> None:
    ids, decoded = list(TEXT.encode()), 0  # a token is a byte: several make one character

    def decode(part: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(part)
        return bytes(part).decode(errors="replace")

    assert len(ids) > 2 * BLOCK
    for length in (1, 2, 5, BLOCK // 2, len(TEXT) - 1, len(TEXT)):
        expected = bisect_left(range(len(ids)), length, key=lambda n: len(decode(ids[:n])))
        decoded = 0
        assert tokens_until(decode, ids, length) == expected
        assert decoded < 2 * len(ids) + 10 * BLOCK
    assert tokens_until(decode, ids, len(TEXT) + 1) == len(ids)
    assert tokens_until(decode, [], 1) == 0
