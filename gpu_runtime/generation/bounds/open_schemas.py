"""What a schema leaves without an end: a model may write it until ``max_tokens``, and the call is
warned of it."""

import json
from collections.abc import Iterator
from typing import Any

from gpu_runtime.generation.requests import ChatRequest

MAX_NAMED = 8
WARNING = "nothing ends these but max_tokens"  # a label of the call
BOUNDS = {
    "string": ("maxLength", "enum", "const", "pattern", "format"),
    "array": ("maxItems", "enum", "const"),
}
Pending = list[tuple[str, Any]]


def open_request(request: ChatRequest) -> list[str]:
    """The same of all schemas that an answer to ``request`` is held to."""
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
        for kind, bounds in BOUNDS.items():
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
