"""Calls written with a mark around each argument, as Qwen3-Coder, Qwen3.5 and Nemotron 3 do:

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Rome
    </parameter>
    </function>
    </tool_call>

A value stands there without quotes: the tool's schema says which type it has. Source: these models'
chat templates.
"""

import json
import re
from functools import partial

from gpu_runtime.rendering.calls.pieces import CallPiece, ParsedCall, joined, read_calls
from gpu_runtime.rendering.calls.schema_types import Schemas, argument

MARKER, END = "<tool_call>", "</tool_call>"
FUNCTION = re.compile(r"\s*<function=([^>\n]+)>")
FUNCTION_END = re.compile(r"\s*</function>")
PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?")
VALUE_END = re.compile(r"</parameter>\s*")
AFTER_VALUE = (
    "<parameter=",
    "</function>",
)  # an end of a value with none of them behind it is text


def parse_xml(text: str, schemas: Schemas) -> tuple[str, list[ParsedCall]]:
    """The plain text and the calls of an answer. One slip makes all of it plain text."""
    return read_calls(text, MARKER, END, partial(_call, schemas=schemas))


class XmlScanner:
    """Finds calls in text that a grammar vouches for, argument by argument. One that is cut short
    counts with the arguments that are whole.
    """

    def __init__(self, schemas: Schemas) -> None:
        self._schemas, self._text = schemas, ""
        self._index, self._name = -1, ""  # the name is empty between calls
        self._given: set[str] = set()  # names of the call's arguments
        self._looked = 0  # up to where the end of the argument in work was looked for

    def feed(self, text: str) -> list[CallPiece]:
        """At most one piece of each call."""
        self._text += text
        pieces = []
        while (piece := self._next()) is not None:
            pieces += [piece] if piece.name or piece.arguments else []
        return joined(pieces)

    def close(self) -> list[CallPiece]:
        """What makes the arguments of a call that was cut short a JSON object."""
        pieces, self._name = [CallPiece(self._index, None, "}")] if self._name else [], ""
        return pieces

    def _next(self) -> CallPiece | None:
        if not self._name:
            if (head := FUNCTION.search(self._text)) is None:
                return None
            self._text = self._text[head.end() :]
            self._index, self._name, self._given, self._looked = (
                self._index + 1,
                head[1].strip(),
                set(),
                0,
            )
            return CallPiece(self._index, self._name, "{")
        if end := FUNCTION_END.match(self._text):
            self._text, self._name = self._text[end.end() :], ""
            return CallPiece(self._index, None, "}")
        found = _parameter(self._text, 0, self._looked)
        if found is None or isinstance(found, int):
            self._looked = found or 0
            return None
        name, text, position = found
        self._text, self._looked = self._text[position:], 0
        if name in self._given:  # the first counts: it was handed out
            return CallPiece(self._index, None, "")
        separator = ", " if self._given else ""
        self._given.add(name)
        value = argument(text, name, self._schemas.get(self._name, {}))
        return CallPiece(self._index, None, f"{separator}{json.dumps(name)}: {json.dumps(value)}")


def _call(text: str, schemas: Schemas) -> tuple[ParsedCall, int] | None:
    if (head := FUNCTION.match(text)) is None:
        return None
    name, arguments, position = head[1].strip(), {}, head.end()
    while (found := _parameter(text, position)) is not None and not isinstance(found, int):
        key, value, position = found
        if key not in arguments:
            arguments[key] = argument(value, key, schemas.get(name, {}))
    end = FUNCTION_END.match(text, position)
    return (ParsedCall(name, json.dumps(arguments)), end.end()) if end else None


def _parameter(text: str, position: int, looked: int = 0) -> tuple[str, str, int] | int | None:
    """The argument at ``position``: its name, its text and where it ends; None if there is none.
    Where its end has not come, the place from which to look for it (``looked``) once ``text`` has
    grown.
    """
    if (head := PARAMETER.match(text, position)) is None:
        return None
    start = max(head.end(), looked)
    while end := VALUE_END.search(text, start):
        after = text[end.end() : end.end() + max(map(len, AFTER_VALUE))]
        if after.startswith(AFTER_VALUE):
            return (
                head[1],
                text[head.end() : end.start()].removesuffix("\n"),
                end.start() + len("</parameter>"),
            )
        if any(mark.startswith(after) for mark in AFTER_VALUE):
            return end.start()
        start = end.end()
    return max(start, len(text) - len("</parameter>") + 1)
