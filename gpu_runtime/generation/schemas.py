"""What a JSON schema may be that an answer is held to, and what one leaves without an end.

The engine makes a grammar of it before it samples, for seconds to minutes where a schema is huge,
and no call of the session is answered faster meanwhile. The bounds are those that OpenAI documents
for structured outputs (platform documentation, "Supported schemas"), and two on counted
repetitions, which a grammar spells out.

xgrammar needs minutes for some patterns that repeat what repeats. ``([a-z]{1,10}){1,100}`` may
split a text in so many ways that no end of the work was seen; ``([a-z]{1,10},){1,100}``, in which
each part has its end, takes a second.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_runtime.generation.requests import ChatRequest
from gpu_runtime.refusals import BadRequest

MAX_ENUM_VALUES = 1_000  # in all enums together
MAX_TEXT = 120_000  # characters of names and of values of enums and consts
MAX_PROPERTIES = 5_000
MAX_REPEATS = 10_000
REPEATS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
MAX_NESTED = 100  # ([a-z]{1,10}){1,10} takes two seconds of a core
TOKEN = re.compile(
    r"(?P<escape>\\(?:p\{[^}]*\}|P\{[^}]*\}|.))|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:[:=!]|<[^>]*>?))?)"
    r"|(?P<close>\))|(?P<count>\{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\})|(?P<other>.)",
    re.DOTALL,
)
CLASSES = set("dDwWsSbBpP")
MAX_NAMED = 8
WARNING = "nothing ends these but max_tokens"  # a label of the call
ENDS = {
    "string": ("maxLength", "enum", "const", "pattern", "format"),
    "array": ("maxItems", "enum", "const"),
}
Pending = list[tuple[str, Any]]


def schema_bound(given: Any, *, param: str) -> None:
    """``given`` is a schema, or anything of JSON that has some. Raises BadRequest, naming what is
    too large.
    """
    enums = texts = properties = 0
    for name, value in _members(given):
        if name in ("enum", "const"):
            values = value if isinstance(value, list) else [value]
            enums += len(values)
            texts += sum(len(each) for each in values if isinstance(each, str))
        elif name == "properties" and isinstance(value, dict):
            properties += len(value)
            texts += sum(map(len, value))
        elif name in REPEATS and isinstance(value, int) and value > MAX_REPEATS:
            raise BadRequest(
                f"{name} is {value}: a schema counts to {MAX_REPEATS} at most", param=param
            )
        elif name == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                _pattern_bound(pattern, param)
        elif name == "pattern" and isinstance(value, str):
            _pattern_bound(value, param)
    for count, most, what in (
        (enums, MAX_ENUM_VALUES, "values in its enums"),
        (properties, MAX_PROPERTIES, "properties"),
        (texts, MAX_TEXT, "characters in its names and values"),
    ):
        if count > most:
            raise BadRequest(
                f"the schema has {count} {what}; at most {most} are taken", param=param
            )


def _pattern_bound(pattern: str, param: str) -> None:
    if (repeats := nested_repeats(pattern)) > MAX_NESTED:
        raise BadRequest(
            f"a pattern repeats what repeats, up to {repeats} times; at most {MAX_NESTED} are "
            "taken where no character "
            "stands between the repetitions",
            param=param,
        )


def _members(part: Any) -> Iterator[tuple[str, Any]]:
    """Every name with its value, at any depth."""
    pending = [part]  # a list instead of recursion: nesting is the client's choice
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value.items()
            pending += value.values()
        elif isinstance(value, list):
            pending += value


@dataclass
class _Group:
    """What was read of a group. ``repeats``: the largest product of counts of parts within parts so
    far.
    """

    repeats: int = 1
    has_fixed: bool = False  # this alternative: a character that is there each time
    always_fixed: bool = True  # the alternatives before it


def nested_repeats(pattern: str) -> int:
    """The largest product of counts of repetitions inside one another that have nothing fixed
    between them.
    """
    groups, largest = [_Group()], 1
    last_repeats, last_is_fixed = 1, False  # of the part before a count
    for token in TOKEN.finditer(pattern):
        group = groups[-1]
        if token["count"]:
            low = int(token["low"][:9])
            high = int(token["high"][:9]) if token["high"] else low
            if last_repeats > 1 and high > 1:
                largest = max(largest, last_repeats * high)
            if last_repeats > 1 or token["comma"]:
                last_repeats *= max(1, high)
            group.repeats = max(group.repeats, last_repeats)
            group.has_fixed &= not (last_is_fixed and low == 0)
            continue
        if token["other"] in ("*", "?"):
            group.has_fixed &= not last_is_fixed
            continue
        if token["open"]:
            groups.append(_Group())
            continue
        if token["close"]:
            if len(groups) > 1:
                groups.pop()
            is_fixed = group.has_fixed and group.always_fixed
            last_repeats, last_is_fixed = 1 if is_fixed else group.repeats, False
            groups[-1].repeats = max(groups[-1].repeats, last_repeats)
            continue
        if token["other"] == "|":
            group.always_fixed &= group.has_fixed
            group.has_fixed = False
            continue
        escape = token["escape"]
        last_repeats = 1
        last_is_fixed = (
            escape[1] not in CLASSES if escape else token["other"] not in (None, ".", "^", "$", "+")
        )
        group.has_fixed |= last_is_fixed
    return largest


def open_request(request: ChatRequest) -> list[str]:
    """What has no end in the schemas that an answer to ``request`` is held to, by its place."""
    found = []
    if (asked := request.json_schema) is not None:
        found += open_parts(
            {"type": "object"} if asked == "{}" else json.loads(asked), "the answer"
        )
    for tool in request.tools or []:
        if tool.function.strict or request.must_call:
            found += open_parts(
                tool.normal()["function"]["parameters"], f"tools.{tool.function.name}"
            )
    return found[:MAX_NAMED]


def open_parts(schema: Any, name: str) -> list[str]:
    """What has no end in ``schema``, which ``name`` is in the request, by its place in it.

    Example: ``open_parts({"type": "string"}, "answer") == ["answer: a string without maxLength"]``.
    """
    found = []
    for place, part in _schemas(schema, name):
        if part in ({}, True) or (
            part.get("type") == "object" and not part.keys() & {"properties", "enum", "const"}
        ):
            found.append(f"{place}: any object" if part else f"{place}: any value")
        for kind, bounds in ENDS.items():
            if kind in _types(part) and not part.keys() & set(bounds):
                found.append(
                    f"{place}: {'an array' if kind == 'array' else 'a string'} without {bounds[0]}"
                )
    return found[:MAX_NAMED]


def _types(part: Any) -> list[Any]:
    named = part.get("type") if isinstance(part, dict) else None
    return named if isinstance(named, list) else [named]


def _schemas(schema: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every schema in ``schema`` with its place; references name some that stand in it anyway."""
    pending: Pending = [(name, schema)]
    while pending:
        place, part = pending.pop()
        if not isinstance(part, dict):
            if part is True:
                yield place, part
            continue
        if "$ref" not in part:
            yield place, part
        for key in ("properties", "$defs", "definitions"):
            inside = part.get(key)
            pending += (
                [(f"{place}.{each}", inside[each]) for each in inside]
                if isinstance(inside, dict)
                else []
            )
        for key in ("anyOf", "oneOf", "allOf"):
            inside = part.get(key)
            pending += [(place, each) for each in inside] if isinstance(inside, list) else []
        if isinstance(part.get("items"), dict | bool):
            pending.append((f"{place}[]", part["items"]))
