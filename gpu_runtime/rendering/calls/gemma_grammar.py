"""The grammar of a call in Gemma 4's form whose arguments follow a schema, in xgrammar's EBNF."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.calls.gemma import KEY, QUOTE
from gpu_runtime.rendering.calls.schema_types import resolved

NOTES = {
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "$schema",
    "nullable",
}
READ = {
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "$ref",
    "additionalProperties",
}
OF_OBJECTS = {"properties", "required", "additionalProperties"}
# of values within values, of alternatives and of references: each costs a few frames of the stack
MAX_DEPTH = 50
# An exponent of two digits keeps a number within a double's range; more than 18 digits are no
# number that is meant.
ANYTHING = r"""
any ::= text | number | "true" | "false" | "null" | list | object
list ::= "[" (any ("," any)*)? "]"
object ::= "{" (key ":" any ("," key ":" any)*)? "}"
key ::= [a-zA-Z0-9_.-]+
integer ::= "-"? ("0" | [1-9] [0-9]{0,17})
number ::= integer ("." [0-9]{1,17})? ([eE] [+-]? [0-9] [0-9]?)?
"""
SCALARS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": '("true" | "false")',
    "null": '"null"',
}
TYPES = {*SCALARS, "array", "object"}


def gemma_call(function: dict[str, Any], quote_id: int | None, excluded: Sequence[int]) -> str:
    """A call of ``function`` (in normal form). Text holds no token of ``excluded``, of which
    ``quote_id`` is one.

    Its length is linear in that of the schema. Raises BadRequest for a schema that is none, and for
    what such a grammar does not hold a model to.
    """
    rules = _Rules(function["parameters"])
    arguments = rules.value(function["parameters"], untyped="object")
    quote = '"<|\\"|>"' if quote_id is None else f"Token({quote_id})"
    inside = "[^<]*" if quote_id is None else f"(ExcludeToken({', '.join(map(str, excluded))}))*"
    head = f"root ::= {json.dumps('call:' + function['name'])} {arguments}\n"
    text = f"quote ::= {quote}\ntext ::= quote {inside} quote\n"
    return (
        head
        + "".join(f"{name} ::= {rule}\n" for name, rule in rules.found.items())
        + text
        + ANYTHING
    )


class _Rules:
    """Arrays, objects and what is referred to have rules of their own: an expression is repeated by
    its name.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        # of rules, by the identity of a schema and what is made of it
        self._names: dict[tuple[int, str], str] = {}
        self.found: dict[str, str] = {}

    def value(
        self, schema: Any, depth: int = 0, through: tuple[int, ...] = (), untyped: str = "any"
    ) -> str:
        """An expression for values of ``schema``, reached by the references ``through`` with
        nothing written between. A schema that names no type has ``untyped`` values.
        """
        if schema is True:
            return "any"
        if not isinstance(schema, dict):
            raise _malformed(f"{str(schema)[:40]} stands where a schema belongs")
        if depth > MAX_DEPTH:
            raise _malformed(f"it is more than {MAX_DEPTH} levels deep")
        if unknown := sorted(set(schema) - NOTES - READ):
            raise _not_held(repr(unknown[0]))
        if "$ref" in schema:
            return self._reference(schema["$ref"], depth, through)
        if "enum" in schema or "const" in schema:
            return _one_of([_literal(value) for value in _listed(schema, "enum")])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return _one_of(
                    [self.value(option, depth + 1, through) for option in _listed(schema, key)]
                )
        return _one_of(
            [self._typed(kind, schema, depth + 1) for kind in _types(schema)] or [untyped]
        )

    def _typed(self, kind: str, schema: dict[str, Any], depth: int) -> str:
        if kind in SCALARS:
            return SCALARS[kind]
        if (id(schema), kind) not in self._names:
            name = self._name(schema, kind)
            self.found[name] = (
                self._array(schema, depth) if kind == "array" else self._object(name, schema, depth)
            )
        return self._names[id(schema), kind]

    def _array(self, schema: dict[str, Any], depth: int) -> str:
        item = self.value(schema.get("items", True), depth)
        return f'"[" ({item} ("," {item})*)? "]"'

    def _object(self, name: str, schema: dict[str, Any], depth: int) -> str:
        properties, required, others = (
            schema.get(key) for key in ("properties", "required", "additionalProperties")
        )
        if not isinstance(properties, dict | None):
            raise _malformed("properties is no object")
        if required is not None and not (
            isinstance(required, list) and all(isinstance(n, str) for n in required)
        ):
            raise _malformed("required is no list of names")
        if unlisted := set(required or []) - set(properties or {}):
            raise _not_held(f"the required {min(unlisted)!r}, which is none of the properties,")
        if properties:
            return f'"{{" {self._members(name, properties, set(required or []), depth)} "}}"'
        if properties is not None or others is False:
            return '"{}"'
        value = "any" if others is None else self.value(others, depth)
        return f'"{{" (key ":" {value} ("," key ":" {value})*)? "}}"'

    def _members(
        self, rule: str, properties: dict[str, Any], required: set[str], depth: int
    ) -> str:
        """Properties in the order in which the template writes them, those that are not required or
        not.
        """
        names = sorted(properties, key=str.lower)
        for first in (True, False):  # whether a comma stands before the next
            self.found[f"{rule}_{len(names)}_{first}"] = '""'
        for index in reversed(range(len(names))):
            name = names[index]
            if not re.fullmatch(KEY, name):
                raise _not_held(f"the property {name[:40]!r}, whose name has no quotes there,")
            member = (
                f"{json.dumps(name + ':', ensure_ascii=False)} "
                f"{self.value(properties[name], depth)}"
            )
            for first in (True, False):
                there = f"{'' if first else json.dumps(',')} {member} {rule}_{index + 1}_False"
                left_out = "" if name in required else f" | {rule}_{index + 1}_{first}"
                self.found[f"{rule}_{index}_{first}"] = there + left_out
        return f"{rule}_0_True"

    def _reference(self, reference: Any, depth: int, through: tuple[int, ...]) -> str:
        target = resolved(reference, self._root) if isinstance(reference, str) else None
        if target is None:
            raise _malformed(f"{str(reference)[:40]} refers to nothing in it")
        if id(target) in through:
            raise _malformed(f"{reference[:40]} refers to itself")
        if (id(target), "reference") not in self._names:
            name = self._name(target, "reference")
            self.found[name] = self.value(target, depth + 1, (*through, id(target)))
        return self._names[id(target), "reference"]

    def _name(self, schema: Any, kind: str) -> str:
        name = self._names[id(schema), kind] = f"{kind}{len(self._names)}"
        return name


def _types(schema: dict[str, Any]) -> list[str]:
    """The types that ``schema`` names, or those of its keywords; empty for any."""
    if "type" not in schema:
        return ["object"] if OF_OBJECTS & set(schema) else ["array"] if "items" in schema else []
    named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not named or not all(isinstance(kind, str) and kind in TYPES for kind in named):
        raise _malformed(f"{str(schema['type'])[:40]} is no type")
    return list(dict.fromkeys(named))


def _listed(schema: dict[str, Any], key: str) -> list[Any]:
    """What stands in the list ``key`` of ``schema``; its const is an enum of one."""
    values = [schema["const"]] if key == "enum" and "const" in schema else schema[key]
    if not isinstance(values, list) or not values:
        raise _malformed(f"{key} is no list of what may be")
    return values


def _literal(value: Any) -> str:
    if isinstance(value, str) and QUOTE not in value:
        return f"quote {json.dumps(value, ensure_ascii=False)} quote" if value else "quote quote"
    if isinstance(value, str | list | dict):
        raise _not_held(f"the value {json.dumps(value)[:40]} of an enum")
    if isinstance(value, float) and not math.isfinite(value):
        raise _malformed("a number of an enum is not finite")
    return json.dumps(json.dumps(value))


def _one_of(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _malformed(what: str) -> BadRequest:
    return BadRequest(f"a call cannot be held to a tool's schema: {what}", param="tools")


def _not_held(what: str) -> BadRequest:
    return BadRequest(
        f"a call in this model's format cannot be held to {what} of a tool's schema",
        hint="Leave it out of the schema, or send tool_choice auto without strict.",
        param="tools",
        openai_code="unsupported_parameter",
    )
