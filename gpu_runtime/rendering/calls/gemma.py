"""Calls as Gemma 4 writes them: ``<|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|>``.

Keys have no quotes and strings have a mark of their own, which is a special token; all else is JSON. A model goes
on with ``<|tool_response>``, where sampling ends: what the tool returned comes next in this turn. Source: the template.
"""

import json
import re

from gpu_runtime.rendering.calls.pieces import CallPiece, ParsedCall, joined, read_calls
from gpu_runtime.rendering.thoughts import ThoughtFormat

MARKER, END, QUOTE, ENDS_ANSWER = "<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_response>"
THOUGHTS = ThoughtFormat("<|channel>thought", "<channel|>")
HEAD = re.compile(r"\s*call:([^{\s]+)\s*(?=\{)")
TOKEN = re.compile(
    r"<\|\"\|>(?P<text>.*?)<\|\"\|>"
    r"|(?P<mark>[{}\[\],:])"
    r"|(?P<key>[^{}\[\],:<\s][^{}\[\],:<]*?)\s*:"
    r"|(?P<word>[^{}\[\],:<\s]+)(?=\s*[,}\]])"
    r"|\s+",
    flags=re.DOTALL,
)


class _Arguments:
    """The object that stands in ``text`` from ``position`` on, as JSON, as far as it has come."""

    def __init__(self) -> None:
        self._depth = 0
        self.is_over = False

    def take(self, text: str, position: int) -> tuple[str, int]:
        """The JSON of what is certain from ``position`` on, and where that ends."""
        parts = []
        while not self.is_over and (found := TOKEN.match(text, position)):
            position = found.end()
            if found["mark"] is not None:
                self._depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found["mark"], 0)
                self.is_over = self._depth == 0
            parts.append(_as_json(found))
        return "".join(parts), position


def parse_gemma(text: str) -> tuple[str, list[ParsedCall]]:
    """The plain text and the calls of an answer. One slip makes all of it plain text."""
    return read_calls(text, MARKER, END, _call)


class GemmaScanner:
    """Finds calls in text that a grammar vouches for. One that is cut short counts with what it has."""

    def __init__(self) -> None:
        self._text, self._index = "", -1
        self._arguments: _Arguments | None = None  # of the call in work

    def feed(self, text: str) -> list[CallPiece]:
        """At most one piece of each call."""
        self._text += text
        pieces = []
        while self._arguments is not None or (head := HEAD.search(self._text)):
            name = None
            if self._arguments is None:
                assert head is not None, "a call begins here"
                self._index, self._arguments, name = self._index + 1, _Arguments(), head[1]
                self._text = self._text[head.end() :]
            written, end = self._arguments.take(self._text, 0)
            pieces += [CallPiece(self._index, name, written)] if written or name else []
            self._text = self._text[end:]
            if not self._arguments.is_over:
                break
            self._arguments = None
        return joined(pieces)


def _call(text: str) -> tuple[ParsedCall, int] | None:
    if (head := HEAD.match(text)) is None:
        return None
    arguments = _Arguments()
    written, end = arguments.take(text, head.end())
    try:
        value = json.loads(written, parse_constant=_refuse) if arguments.is_over else None
    except (ValueError, RecursionError):
        return None
    return (ParsedCall(head[1], json.dumps(value)), end) if isinstance(value, dict) else None


def _as_json(found: re.Match[str]) -> str:
    if found["text"] is not None:
        return json.dumps(found["text"])
    if found["key"] is not None:
        return f"{json.dumps(found['key'])}: "
    mark = found["mark"] or found["word"] or ""
    return {",": ", ", ":": ": "}.get(mark, mark)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
