"""Values that a model wrote without quotes: their JSON type is the one that the tool's schema gives
them.
"""

from collections.abc import Mapping
from typing import Any

from gpu_runtime.rendering.calls.json_text import load

Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]  # of each tool's arguments, by its name
Types = frozenset[str]
ANY: Types = frozenset()
PYTHON = {"True": True, "False": False, "None": None}  # as templates of Jinja write them
DEPTH = 8  # of references and alternatives that are followed
# schemas, for one argument: alternatives that refer to each other are very many
MAX_LOOKED_AT = 1_000


def schemas_of(tools: list[dict[str, Any]]) -> Schemas:
    """The schema of each tool's arguments; ``tools`` in normal form."""
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}


def argument(text: str, name: str, schema: Schema) -> Any:
    """The argument ``name`` of a call whose arguments follow ``schema``, written as ``text``. A
    value that is none of its schema's types is a string, so that the agent can say what is wrong
    with it.

    Example: ``argument("5", "n", {"properties": {"n": {"type": "integer"}}}) == 5``.
    """
    types = _Lookup(schema).of_property(name, schema) or ANY
    if types == {"string"}:
        return text
    try:
        value = PYTHON[text] if text in PYTHON else load(text)
    except (ValueError, RecursionError):
        return text
    is_meant = (
        types == ANY or _type(value) in types or (_type(value) == "integer" and "number" in types)
    )
    is_whole = isinstance(value, float) and value.is_integer() and "integer" in types
    return value if not isinstance(value, str) and (is_meant or is_whole) else text


def resolved(reference: str, root: Schema) -> Any:
    """What ``reference`` names in ``root``, such as ``#/$defs/City``; None for nothing."""
    if not reference.startswith("#"):
        return None
    value: Any = root
    for key in reference[1:].strip("/").split("/") if reference.strip("#/") else []:
        value = (
            value.get(key.replace("~1", "/").replace("~0", "~"))
            if isinstance(value, Mapping)
            else None
        )
    return value


class _Lookup:
    """Types that a schema gives to values, where ``root`` is what its references begin at."""

    def __init__(self, root: Schema) -> None:
        self._root, self._left = root, MAX_LOOKED_AT

    def of_property(self, name: str, schema: Any, depth: int = 0) -> Types | None:
        """Those of the property ``name`` of objects of ``schema``; None where it does not describe
        one.
        """
        if not self._can_look_at(schema, depth):
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self.of_property(name, resolved(reference, self._root), depth + 1)
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties.get(name) is not None:
            return self.of(properties[name])
        for key in ("allOf", "anyOf", "oneOf"):
            options = schema.get(key)
            each = (
                [self.of_property(name, option, depth + 1) for option in options]
                if _is_list(options)
                else []
            )
            if found := [types for types in each if types is not None]:
                return _joined(key, found)
        others = schema.get("additionalProperties")
        return None if others is None else self.of(others)

    def of(self, schema: Any, depth: int = 0) -> Types:
        """Those of values of ``schema``."""
        if not self._can_look_at(schema, depth):
            return ANY
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(resolved(reference, self._root), depth + 1)
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return frozenset(map(_type, values)) if isinstance(values, list) else ANY
        if (named := schema.get("type")) is not None:
            listed = named if isinstance(named, list) else [named]
            return frozenset(kind for kind in listed if isinstance(kind, str))
        for key in ("anyOf", "oneOf", "allOf"):
            if _is_list(options := schema.get(key)):
                return _joined(key, [self.of(option, depth + 1) for option in options])
        return ANY

    def _can_look_at(self, schema: Any, depth: int) -> bool:
        self._left -= 1
        return isinstance(schema, Mapping) and depth <= DEPTH and self._left >= 0


def _joined(key: str, found: list[Types]) -> Types:
    """What all of them allow, of whom the first that says something is taken; or what any of them
    allows.
    """
    if key == "allOf":
        return next((types for types in found if types != ANY), ANY)
    return ANY if ANY in found else frozenset().union(*found)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _type(value: Any) -> str:
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), "null")
