"""Values that a model wrote without quotes: their JSON type is the one that the tool's schema gives them."""

import json
import math
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]  # of each tool's arguments, by its name
ANY: frozenset[str] = frozenset()
PYTHON = {"True": True, "False": False, "None": None}  # as templates of Jinja write them
DEPTH = 8  # of references and alternatives that are followed


def schemas_of(tools: list[dict[str, Any]]) -> Schemas:
    """The schema of each tool's arguments; ``tools`` in normal form."""
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}


def argument(text: str, name: str, schema: Schema) -> Any:
    """The argument ``name`` of a call whose arguments follow ``schema``, written as ``text``. A value that is none of
    its schema's types is a string, so that the agent can say what is wrong with it.

    Example: ``argument("5", "n", {"properties": {"n": {"type": "integer"}}}) == 5``.
    """
    properties = schema.get("properties")
    described = properties.get(name) if isinstance(properties, dict) else None
    types = _types(schema.get("additionalProperties") if described is None else described, schema)
    if types == {"string"}:
        return text
    try:
        value = PYTHON[text] if text in PYTHON else json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text
    is_meant = types == ANY or _type(value) in types or (_type(value) == "integer" and "number" in types)
    is_whole = isinstance(value, float) and value.is_integer() and "integer" in types
    return value if not isinstance(value, str) and (is_meant or is_whole) else text


def _types(schema: Any, root: Schema, depth: int = 0) -> frozenset[str]:
    if not isinstance(schema, dict) or depth > DEPTH:
        return ANY
    if isinstance(reference := schema.get("$ref"), str):
        return _types(_resolved(reference, root), root, depth + 1)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return frozenset(map(_type, values)) if isinstance(values, list) else ANY
    if (named := schema.get("type")) is not None:
        return frozenset([named] if isinstance(named, str) else filter(_is_text, named))
    for key in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(key), list):
            found = [_types(option, root, depth + 1) for option in options]
            return ANY if ANY in found else frozenset().union(*found)
    options = schema.get("allOf")
    found = [_types(option, root, depth + 1) for option in options] if isinstance(options, list) else []
    return next((types for types in found if types != ANY), ANY)


def _resolved(reference: str, root: Schema) -> Any:
    value: Any = root
    for key in reference.removeprefix("#").strip("/").split("/"):
        value = value.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
    return value


def _type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not finite")
    return value
