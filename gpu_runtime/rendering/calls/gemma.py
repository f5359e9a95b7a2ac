"""Calls as Gemma 4 writes them:
``<|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|>``.

Keys have no quotes and strings have a mark of their own, which is a special token; all else is
JSON. A model goes on with ``<|tool_response>``, where sampling ends: what the tool returned comes
next in this turn. Source: the template.
"""

import json
import re

from gpu_runtime.rendering.calls.json_text import load
from gpu_runtime.rendering.calls.pieces import CallPiece, ParsedCall, joined, read_calls
from gpu_runtime.rendering.thoughts import ThoughtFormat

MARKER, END, QUOTE, ENDS_ANSWER = "<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_response>"
THOUGHTS = ThoughtFormat("<|channel>thought", "<channel|>")
HEAD = re.compile(r"\s*call:([^{\s]+)\s*(?=\{)")
# no two parts take the same letters: linear in its length
KEY = r"[^{}\[\],:<\s]++(?:\s++[^{}\[\],:<\s]++)*"
TOKEN = re.compile(
    rf"(?P<mark>[{{}}\[\],:])|(?P<key>{KEY})\s*+:|(?P<word>[^{{}}\[\],:<\s]++)(?=\s*+[,}}\]])|\s++",
    flags=re.DOTALL,
)
CLOSING = {"{": "}", "[": "]"}


class GemmaArguments:
    """An object in text that comes piece by piece, as JSON. A key is handed out with its value:
    what has been handed out lacks its closing brackets alone.
    """

    def __init__(self) -> None:
        self._open: list[str] = []  # the brackets that close what is open
        self._held = ""  # a comma and a key whose value has not come
        self._looked = 0  # how many letters of the string in work were looked at for its end
        self.is_over = False

    def take(self, text: str, position: int) -> tuple[str, int]:
        """The JSON of what is certain from ``position`` on, and where that ends: the next call
        begins there.
        """
        parts = []
        while not self.is_over:
            if text.startswith(QUOTE, position):
                begin = position + len(QUOTE)
                end = text.find(QUOTE, begin + self._looked)
                if end < 0:
                    self._looked = max(0, len(text) - begin - len(QUOTE) + 1)
                    break
                self._looked, position = 0, end + len(QUOTE)
                parts.append(self._value(json.dumps(text[begin:end])))
            elif found := TOKEN.match(text, position):
                position = found.end()
                parts.append(self._token(found))
            else:
                break
        return "".join(parts), position

    def close(self) -> str:
        """The brackets that are missing."""
        return "".join(reversed(self._open))

    def _token(self, found: re.Match[str]) -> str:
        mark = found["mark"]
        if found["key"] is not None:
            self._held += f"{json.dumps(found['key'])}: "
        elif mark in (",", ":"):
            self._held += f"{mark} "
        elif mark in CLOSING:
            self._open.append(CLOSING[mark])
        elif mark is not None:
            self._open.pop()
            self.is_over = not self._open
        is_value = found["word"] is not None or (mark is not None and mark not in ",:")
        return self._value(found["word"] or mark) if is_value else ""

    def _value(self, written: str) -> str:
        held, self._held = self._held, ""
        return held + written


def parse_gemma(text: str) -> tuple[str, list[ParsedCall]]:
    """The plain text and the calls of an answer. One slip makes all of it plain text."""
    return read_calls(text, MARKER, END, _call)


class GemmaScanner:
    """Finds calls in text that a grammar vouches for. One that is cut short counts with the values
    that are whole.
    """

    def __init__(self) -> None:
        self._text, self._index = "", -1
        self._arguments: GemmaArguments | None = None  # of the call in work

    def feed(self, text: str) -> list[CallPiece]:
        """At most one piece of each call."""
        self._text += text
        pieces = []
        while self._arguments is not None or (head := HEAD.search(self._text)):
            name = None
            if self._arguments is None:
                assert head is not None, "a call begins here"
                self._index, self._arguments, name = self._index + 1, GemmaArguments(), head[1]
                self._text = self._text[head.end() :]
            written, end = self._arguments.take(self._text, 0)
            pieces += [CallPiece(self._index, name, written)] if written or name else []
            self._text = self._text[end:]
            if not self._arguments.is_over:
                break
            self._arguments = None
        return joined(pieces)

    def close(self) -> list[CallPiece]:
        """What makes the arguments of a call that was cut short a JSON object."""
        missing, self._arguments = self._arguments.close() if self._arguments else "", None
        return [CallPiece(self._index, None, missing)] if missing else []


def _call(text: str) -> tuple[ParsedCall, int] | None:
    if (head := HEAD.match(text)) is None:
        return None
    arguments = GemmaArguments()
    written, end = arguments.take(text, head.end())
    try:
        value = load(written) if arguments.is_over else None
    except (ValueError, RecursionError):
        return None
    return (ParsedCall(head[1], json.dumps(value)), end) if isinstance(value, dict) else None
