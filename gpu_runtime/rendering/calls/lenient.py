"""Calls with slips, read as vLLM's parsers of these formats read them (0.32): what is trained is
then what a server makes of the same answer.

- Hermes: what stands between ``<tool_call>`` and the next ``</tool_call>``, or the end, is a call's
  JSON. An argument that quotes the mark makes all of the answer text.
- XML: a call begins with ``<function=``, with or without ``<tool_call>`` before it, and ends with
  the next ``</function>``, or the answer. A value ends with the next ``</parameter>``,
  ``<parameter=`` or the call. Of a name that is given twice the last counts; what stands after and
  between calls is left out. (vLLM drops a call's last value where nothing closes it, and keeps it
  in a stream; here it counts.)
- Llama: arguments may be named ``arguments`` too.

In every format a call that stands in thoughts which nothing has closed ends them.
"""

import json
import re

from gpu_runtime.rendering.calls.json_text import load, load_at
from gpu_runtime.rendering.calls.pieces import MAX_NAME, ParsedCall
from gpu_runtime.rendering.calls.schema_types import Schemas, argument

XML_STARTS = ("<tool_call>", "<function=")
HERMES_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
# Longer names are none. The bounds keep an answer that repeats a mark from being read for minutes.
NAME, BLANKS = rf"([^>]{{0,{2 * MAX_NAME}}})>", r"\s{0,8}"
XML_CALL = re.compile(rf"<function={NAME}(.*?)(?:</function>|\Z)", re.DOTALL)
BEGIN = f"<{BLANKS}parameter{BLANKS}="
PARAMETER = re.compile(
    rf"{BEGIN}{NAME}(.*?)(?:<{BLANKS}/{BLANKS}parameter{BLANKS}>|(?={BEGIN})|\Z)", re.DOTALL
)


def read_hermes(text: str) -> tuple[str, list[ParsedCall]]:
    """The plain text and the calls of an answer."""
    found = [_named(call[1], ("arguments",)) for call in HERMES_CALL.finditer(text)]
    return _whole(text, text.find("<tool_call>"), found)


def read_xml(text: str, schemas: Schemas) -> tuple[str, list[ParsedCall]]:
    """The same, where ``schemas`` say which types values have."""
    calls: list[ParsedCall | None] = []
    for call in XML_CALL.finditer(text):
        name = call[1].strip()
        inside = call[2].removesuffix("\n</tool_call>") if call.end() == len(text) else call[2]
        values = {found[1].lstrip(): _trimmed(found[2]) for found in PARAMETER.finditer(inside)}
        given = {
            key: argument(value, key, schemas.get(name, {})) for key, value in values.items() if key
        }
        calls.append(ParsedCall(name, json.dumps(given)) if name else None)
    begins = [at for mark in XML_STARTS if (at := text.find(mark)) >= 0]
    return _whole(text, min(begins, default=-1), calls)


def read_llama(text: str) -> tuple[str, list[ParsedCall]]:
    """The same of objects in a row, a semicolon between them or none."""
    rest, calls = text.strip(), list[ParsedCall | None]()
    while rest.startswith("{"):
        try:
            _, end = load_at(rest, 0)
        except (ValueError, RecursionError):
            break
        calls.append(_named(rest[:end], ("arguments", "parameters")))
        rest = rest[end:].lstrip().removeprefix(";").lstrip()
    return _whole(text, 0, [None] if rest else calls)


def _whole(text: str, begin: int, calls: list[ParsedCall | None]) -> tuple[str, list[ParsedCall]]:
    good = [call for call in calls if call is not None]
    return (text[:begin].rstrip(), good) if good and len(good) == len(calls) else (text, [])


def _named(text: str, keys: tuple[str, ...]) -> ParsedCall | None:
    try:
        value = load(text.strip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    given = [value[key] for key in keys if key in value]
    return (
        ParsedCall(value["name"], json.dumps(given[0]))
        if given and isinstance(given[0], dict)
        else None
    )


def _trimmed(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")
