"""Tool calls in the text of a model: the formats that are known, and how each is found, parsed and asked for.

Which one a model uses is read off its chat template, by rendering a call and looking at what it became.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ParsedCall:
    """One call as the model wrote it; ``arguments`` is JSON text of an object."""

    name: str
    arguments: str


@dataclass(frozen=True)
class ToolFormat:
    """``marker`` begins the part of an answer that is not plain text. ``arguments_key`` names a call's arguments.

    A forced call is asked for by ending the prompt with ``prefill``, constraining the answer to one JSON object, and
    taking ``closing`` as what the template writes after it; none means that this format cannot be forced.
    """

    name: str
    marker: str
    parse: Callable[[str], tuple[str, list[ParsedCall]]]
    arguments_key: str = "arguments"
    prefill: str | None = None
    closing: str = ""
    at_start: bool = False  # a call can only begin an answer
    short_ids: bool = False  # the template takes call ids of nine letters and digits only

    def plain_length(self, text: str) -> int:
        """How many characters of ``text``, the answer so far, are plain text whatever comes next."""
        if self.at_start:
            start = text.lstrip()
            return 0 if not start or start.startswith(self.marker) else len(text)
        end = text.find(self.marker)
        if end < 0:
            held = (n for n in range(min(len(self.marker) - 1, len(text)), 0, -1) if text.endswith(self.marker[:n]))
            end = len(text) - next(held, 0)
        return len(text[:end].rstrip())

    def call_id(self, seed: str) -> str:
        """An id for a call, the same for the same ``seed``."""
        digest = hashlib.sha256(seed.encode()).hexdigest()
        return digest[:9] if self.short_ids else f"call_{digest[:24]}"

    def forced_schema(self, tools: list[dict[str, Any]]) -> str:
        """The JSON schema of exactly one call of one of ``tools`` (in normal form)."""
        calls = [
            {
                "type": "object",
                "properties": {
                    "name": {"const": tool["function"]["name"]},
                    self.arguments_key: tool["function"]["parameters"],
                },
                "required": ["name", self.arguments_key],
                "additionalProperties": False,
            }
            for tool in tools
        ]
        return json.dumps(calls[0] if len(calls) == 1 else {"anyOf": calls})


def detect(rendered_call: str, tool_name: str) -> ToolFormat | None:
    """The format in which a template wrote a call of ``tool_name``, or none if it is not one of those known here."""
    if re.search(r"<tool_call>\s*\{\s*\"name\":\s*\"" + re.escape(tool_name), rendered_call):
        return HERMES
    if re.search(r"\[TOOL_CALLS\]\s*\[\s*\{\s*\"name\":\s*\"" + re.escape(tool_name), rendered_call):
        return MISTRAL
    if re.search(r"\{\s*\"name\":\s*\"" + re.escape(tool_name) + r"\",\s*\"parameters\":", rendered_call):
        return LLAMA3
    return None


def _parse_hermes(text: str) -> tuple[str, list[ParsedCall]]:
    before, marker, _ = text.partition("<tool_call>")
    bodies = re.findall(r"<tool_call>(.*?)(?:</tool_call>|\Z)", text, flags=re.DOTALL)
    calls = [_call(_load(body), "arguments") for body in bodies]
    return _whole(text, before, calls if marker else [])


def _parse_mistral(text: str) -> tuple[str, list[ParsedCall]]:
    before, marker, after = text.partition("[TOOL_CALLS]")
    values = _load(after) if marker else []
    return _whole(text, before, [_call(value, "arguments") for value in values] if isinstance(values, list) else [None])


def _parse_llama3(text: str) -> tuple[str, list[ParsedCall]]:
    stripped = text.strip()
    calls = [_call(_load(part), "parameters") for part in stripped.split("; ")] if stripped.startswith("{") else []
    return _whole(text, "", calls)


def _whole(text: str, before: str, calls: list[ParsedCall | None]) -> tuple[str, list[ParsedCall]]:
    """Either every call of an answer is well formed or the answer is plain text."""
    good = [call for call in calls if call is not None]
    return (before.rstrip(), good) if good and len(good) == len(calls) else (text, [])


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _call(value: Any, arguments_key: str) -> ParsedCall | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    arguments = value.get(arguments_key, {})
    return ParsedCall(value["name"], json.dumps(arguments)) if isinstance(arguments, dict) else None


HERMES = ToolFormat("hermes", "<tool_call>", _parse_hermes, prefill="<tool_call>\n", closing="\n</tool_call>")
MISTRAL = ToolFormat("mistral", "[TOOL_CALLS]", _parse_mistral, short_ids=True)
LLAMA3 = ToolFormat("llama3", "{", _parse_llama3, arguments_key="parameters", prefill="", at_start=True)
