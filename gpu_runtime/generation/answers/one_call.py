"""Ends an answer with its first tool call, for requests that forbid parallel calls."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpu_runtime.generation.answers.stop_strings import first_tokens
from gpu_runtime.interfaces import Delta
from gpu_runtime.rendering.tool_formats import ToolFormat

Decode = Callable[[Sequence[int]], str]


class OneCall:
    """Cuts one answer's deltas. The answer ends where its first call does, whatever the engine has
    sampled by then: what a delta holds beyond depends on how busy the engine is, and is neither
    shown nor kept.

    Tokens without text are held back until their text comes: it may end the call before them, as
    where the engine split what it sampled under two versions.
    """

    def __init__(self, call_format: ToolFormat, decode: Decode) -> None:
        self._format, self._decode = call_format, decode
        self._text = ""
        self._ids: tuple[int, ...] = ()
        self._held: list[Delta] = []

    def cut(self, delta: Delta) -> list[Delta]:
        """What is certain of the answer now: ``delta`` and what was held back, or as much as
        belongs to the first call, which then is the answer's last.
        """
        shown, self._text = len(self._text), self._text + delta.text
        self._held.append(delta)
        end = self._format.first_call_end(self._text, since=shown)
        if end is None and not delta.text and delta.finish_reason is None:
            return []
        pieces, self._held = self._held, []
        before, self._ids = (
            self._ids,
            (*self._ids, *(token for piece in pieces for token in piece.token_ids_T)),
        )
        if end is None:
            return pieces
        kept = next(n for n in range(len(before), len(self._ids) + 1) if self._holds(n, end)) - len(
            before
        )
        found = []
        for piece in pieces:
            found.append(first_tokens(piece, kept))
            kept -= len(found[-1].token_ids_T)
        text = self._text[shown : max(end, shown)]
        return [*found[:-1], replace(found[-1], text=text, finish_reason="stop", stop_reason=None)]

    def _holds(self, count: int, end: int) -> bool:
        """Whether the first ``count`` ids are the text up to ``end``, or all there is."""
        return count == len(self._ids) or len(self._decode(self._ids[:count])) >= end
