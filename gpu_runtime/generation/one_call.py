"""Ends an answer with its first tool call, for requests that forbid parallel calls."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpu_runtime.interfaces import Delta
from gpu_runtime.rendering.tool_formats import ToolFormat

Decode = Callable[[Sequence[int]], str]


class OneCall:
    """Cuts one answer's deltas. The answer ends where its first call does, whatever the engine has sampled by then:
    what a delta holds beyond depends on how busy the engine is, and is neither shown nor kept."""

    def __init__(self, call_format: ToolFormat, decode: Decode) -> None:
        self._format, self._decode = call_format, decode
        self._text = ""
        self._ids: tuple[int, ...] = ()

    def cut(self, delta: Delta) -> Delta:
        """``delta``, or as much of it as belongs to the first call, which then is the answer's last one."""
        before, self._text = self._text, self._text + delta.text
        ids_before, self._ids = self._ids, (*self._ids, *delta.token_ids_T)
        end = self._format.first_call_end(self._text)
        if end is None:
            return delta
        counts = range(len(delta.token_ids_T) + 1)
        kept = next(n for n in counts if self._holds((*ids_before, *delta.token_ids_T[:n]), end))
        return replace(
            delta,
            text=self._text[len(before) : max(end, len(before))],
            token_ids_T=delta.token_ids_T[:kept],
            logprobs_T=delta.logprobs_T[:kept],
            top_logprobs_T=delta.top_logprobs_T[:kept],
            allowed_T=delta.allowed_T[:kept],
            finish_reason="stop",
            stop_reason=None,
        )

    def _holds(self, ids: tuple[int, ...], end: int) -> bool:
        """Whether ``ids`` are the text up to ``end``, or all there is."""
        return len(self._decode(ids)) >= end or len(ids) == len(self._ids)
