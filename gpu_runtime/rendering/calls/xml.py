"""Calls written with a mark around each argument, as Qwen3-Coder, Qwen3.5 and Nemotron 3 do:

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Rome
    </parameter>
    </function>
    </tool_call>

A value stands there without quotes: the tool's schema says which type it has. Source: these models' chat templates.
"""

import json
import re
from functools import partial

from gpu_runtime.rendering.calls.pieces import CallPiece, ParsedCall, joined, read_calls
from gpu_runtime.rendering.calls.schema_types import Schemas, argument

MARKER, END = "<tool_call>", "</tool_call>"
FUNCTION = re.compile(r"\s*<function=([^>\n]+)>")
FUNCTION_END = re.compile(r"\s*</function>")
# What looks like the end of a value and is followed by neither of these is part of it.
PARAMETER = re.compile(
    r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>(?=\s*(?:<parameter=|</function>))", flags=re.DOTALL
)


def parse_xml(text: str, schemas: Schemas) -> tuple[str, list[ParsedCall]]:
    """The plain text and the calls of an answer. One slip makes all of it plain text."""
    return read_calls(text, MARKER, END, partial(_call, schemas=schemas))


class XmlScanner:
    """Finds calls in text that a grammar vouches for, argument by argument. One that is cut short counts with what it
    has."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas, self._text = schemas, ""
        self._index, self._name, self._arguments = -1, "", 0  # the name is empty between calls

    def feed(self, text: str) -> list[CallPiece]:
        """At most one piece of each call."""
        self._text += text
        pieces = []
        while (piece := self._next()) is not None:
            pieces.append(piece)
        return joined(pieces)

    def _next(self) -> CallPiece | None:
        if not self._name:
            if (head := FUNCTION.search(self._text)) is None:
                return None
            self._text = self._text[head.end() :]
            self._index, self._name, self._arguments = self._index + 1, head[1].strip(), 0
            return CallPiece(self._index, self._name, "{")
        if found := PARAMETER.match(self._text):
            self._text = self._text[found.end() :]
            separator, self._arguments = ", " if self._arguments else "", self._arguments + 1
            value = argument(found[2], found[1], self._schemas.get(self._name, {}))
            return CallPiece(self._index, None, f"{separator}{json.dumps(found[1])}: {json.dumps(value)}")
        if end := FUNCTION_END.match(self._text):
            self._text, self._name = self._text[end.end() :], ""
            return CallPiece(self._index, None, "}")
        return None


def _call(text: str, schemas: Schemas) -> tuple[ParsedCall, int] | None:
    if (head := FUNCTION.match(text)) is None:
        return None
    name, arguments, position = head[1].strip(), {}, head.end()
    while found := PARAMETER.match(text, position):
        arguments[found[1]] = argument(found[2], found[1], schemas.get(name, {}))
        position = found.end()
    end = FUNCTION_END.match(text, position)
    return (ParsedCall(name, json.dumps(arguments)), end.end()) if end else None
