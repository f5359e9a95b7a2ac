"""What ends an answer where the engine does not: a stop string behind thoughts, its first call."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpu_runtime.interfaces import Delta
from gpu_runtime.rendering.answer_parser import AnswerParser
from gpu_runtime.rendering.calls.pieces import overlap
from gpu_runtime.rendering.harmony import HarmonyParser
from gpu_runtime.rendering.tool_formats import ToolFormat

Decode = Callable[[Sequence[int]], str]


class StopStrings:
    """Cuts one answer's deltas where the first of ``stops`` is whole, as vLLM does: the text ends
    before it, the tokens with it. ``reader`` finds where thoughts end; before ``min_tokens``
    nothing stops.

    An engine looks for them in all of its text; thoughts may quote what is to come.
    """

    def __init__(
        self,
        stops: Sequence[str],
        reader: AnswerParser | HarmonyParser,
        decode: Decode,
        *,
        min_tokens: int = 0,
    ) -> None:
        self._stops, self._reader, self._decode = stops, reader, decode
        self._min_tokens = min_tokens
        self._text, self._shown = "", 0
        self._ids: list[int] = []
        # where in the text the next one may begin; None inside thoughts
        self._from: int | None = None

    def cut(self, delta: Delta) -> list[Delta]:
        """``delta`` without what may be the beginning of a stop string, and with what was held
        back."""
        known = len(self._ids)
        self._text += delta.text
        self._ids += delta.token_ids_T
        self._begin(delta)
        if found := self._found():
            end, at, stop = min(found)
            kept = _ids_until(self._decode, self._ids, end, since=known) - known
            text, self._shown = self._text[self._shown : at], at
            return [
                replace(
                    first_tokens(delta, kept), text=text, finish_reason="stop", stop_reason=stop
                )
            ]
        safe = len(self._text)
        if delta.finish_reason is None and self._from is not None:
            safe -= max(overlap(self._text[self._from :], stop) for stop in self._stops)
            self._from = safe
        text, self._shown = self._text[self._shown : safe], max(self._shown, safe)
        return [replace(delta, text=text)]

    def _found(self) -> list[tuple[int, int, str]]:
        """The stop strings that are whole, each with its end and its beginning in the text."""
        if self._from is None:
            return []
        begins = [(self._text.find(stop, self._from), stop) for stop in self._stops]
        return [(at + len(stop), at, stop) for at, stop in begins if at >= 0]

    def _begin(self, delta: Delta) -> None:
        """Stops count from the end of thoughts on, and behind ``min_tokens``."""
        if self._from is None:
            self._reader.more(delta.text, delta.token_ids_T)
            if said := self._reader.said:
                self._from = max(0, len(self._text) - said)
        if self._from is not None and len(self._ids) <= self._min_tokens:
            self._from = len(self._text)


class OneCall:
    """Cuts one answer's deltas, for requests that forbid parallel calls.

    The answer ends where its first call does, whatever the engine has sampled by then: what a delta
    holds beyond depends on how busy the engine is, and is neither shown nor kept.

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
        known = len(self._ids)
        self._ids += tuple(token for piece in pieces for token in piece.token_ids_T)
        if end is None:
            return pieces
        kept = _ids_until(self._decode, self._ids, end, since=known) - known
        found = []
        for piece in pieces:
            found.append(first_tokens(piece, kept))
            kept -= len(found[-1].token_ids_T)
        text = self._text[shown : max(end, shown)]
        return [*found[:-1], replace(found[-1], text=text, finish_reason="stop", stop_reason=None)]


def _ids_until(decode: Decode, ids: Sequence[int], end: int, *, since: int) -> int:
    """How many first ``ids``, at least ``since``, are the text up to ``end``; all if none are."""
    counts = range(since, len(ids))
    return next((n for n in counts if len(decode(ids[:n])) >= end), len(ids))


def first_tokens(delta: Delta, count: int) -> Delta:
    """``delta`` with its first ``count`` tokens."""
    return replace(
        delta,
        token_ids_T=delta.token_ids_T[:count],
        logprobs_T=delta.logprobs_T[:count],
        top_logprobs_T=delta.top_logprobs_T[:count],
        allowed_T=delta.allowed_T[:count],
        raw_logprobs_T=delta.raw_logprobs_T[:count],
        experts_T=delta.experts_T[:count],
    )
