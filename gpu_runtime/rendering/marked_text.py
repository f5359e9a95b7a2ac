"""Special tokens as part of an answer's text: the marks around thoughts and calls that some models
write as tokens.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

Decode = Callable[[Sequence[int]], str]
CONTEXT = 8  # ids that are decoded again with those behind them: several may make one character


class MarkedText:
    """One answer on its way: an engine's text, which has no special tokens, with those in ``marks``
    (id: text) written where they were sampled. ``decode`` makes the engine's text of ids.

    Example: with ``{7: "[THINK]"}`` the text ``"hm"`` of the ids ``[7, 40]`` is ``"[THINK]hm"``.
    """

    def __init__(self, marks: Mapping[int, str], decode: Decode) -> None:
        self._marks, self._decode = marks, decode
        self._ids: list[int] = []  # without the marks
        # how many of them stood before the last mark, and for how much text
        self._measured = self._measured_length = 0
        self._length = 0  # of the text that came
        # where in the text a mark stands that the text has not reached
        self._waiting: list[tuple[int, str]] = []

    def feed(self, text: str, token_ids: Sequence[int]) -> str:
        """``text``, which came with ``token_ids``, and its marks. An engine may hold text back, and
        never ahead.
        """
        return "".join(piece for piece, _ in self.pieces(text, token_ids))

    def pieces(self, text: str, token_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """The same as (text, whether it is a mark): an answer can hold the letters of a mark that
        are none.
        """
        if not self._marks:
            return [(text, False)]
        for token in token_ids:
            if token in self._marks:
                self._waiting.append((self._length_of_ids(), self._marks[token]))
            else:
                self._ids.append(token)
        begin, self._length = self._length, self._length + len(text)
        found, taken = list[tuple[str, bool]](), 0
        while self._waiting and self._waiting[0][0] <= self._length:
            at, mark = self._waiting.pop(0)
            upto = max(taken, at - begin)
            found += [(text[taken:upto], False), (mark, True)]
            taken = upto
        return [*found, (text[taken:], False)]

    def _length_of_ids(self) -> int:
        """The length of the text of all ids so far. Each is decoded about once, however many marks
        there are.
        """
        near = self._ids[max(0, self._measured - CONTEXT) :]
        known = near[: len(near) - (len(self._ids) - self._measured)]
        self._measured_length += len(self._decode(near)) - len(self._decode(known))
        self._measured = len(self._ids)
        return self._measured_length


BLOCK = 256  # ids


def tokens_until(decode: Decode, ids: Sequence[int], length: int) -> int:
    """The least number of first ``ids`` whose text has ``length`` characters; all of them where
    none has.

    Each id is decoded about once: a search that decodes from the beginning takes 0.2 s of 35,000
    ids.
    """
    before = 0  # characters of the ids before a block
    for start in range(0, len(ids), BLOCK):
        near, block = ids[max(0, start - CONTEXT) : start], ids[start : start + BLOCK]
        known = before - len(decode(near))
        before = known + len(decode([*near, *block]))
        if before >= length:
            break
    else:
        return len(ids)
    sizes = range(len(block))
    return start + bisect_left(
        sizes, length, key=lambda n: known + len(decode([*near, *block[:n]]))
    )
