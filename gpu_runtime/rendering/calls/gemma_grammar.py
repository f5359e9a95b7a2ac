"""The grammar of a call in Gemma 4's form whose arguments follow a schema, in xgrammar's EBNF."""

import json
from collections.abc import Sequence
from typing import Any

from gpu_runtime.refusals import BadRequest

NOTES = {"$defs", "definitions", "title", "description", "default", "examples", "deprecated", "$schema", "nullable"}
READ = {"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref", "additionalProperties"}
ANYTHING = r"""
any ::= text | number | "true" | "false" | "null" | list | object
list ::= "[" (any ("," any)*)? "]"
object ::= "{" (pair ("," pair)*)? "}"
pair ::= [a-zA-Z0-9_.-]+ ":" any
integer ::= "-"? ("0" | [1-9] [0-9]*)
number ::= integer ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
"""
SCALARS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": '("true" | "false")',
    "null": '"null"',
}


def gemma_call(function: dict[str, Any], quote_id: int | None, excluded: Sequence[int]) -> str:
    """A call of ``function`` (in normal form). Text holds no token of ``excluded``, of which ``quote_id`` is one.

    Raises BadRequest for a keyword of the schema that such a grammar does not hold a model to.
    """
    rules = _Rules(function["parameters"])
    arguments = rules.value(function["parameters"])
    quote = '"<|\\"|>"' if quote_id is None else f"Token({quote_id})"
    inside = "[^<]*" if quote_id is None else f"(ExcludeToken({', '.join(map(str, excluded))}))*"
    head = f"root ::= {json.dumps('call:' + function['name'])} {arguments}\n"
    text = f"quote ::= {quote}\ntext ::= quote {inside} quote\n"
    return head + "".join(f"{name} ::= {rule}\n" for name, rule in rules.found.items()) + text + ANYTHING


class _Rules:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._referenced: dict[str, str] = {}
        self.found: dict[str, str] = {}

    def value(self, schema: Any) -> str:
        """An expression for values of ``schema``."""
        if not isinstance(schema, dict):
            return "any"
        if unknown := sorted(set(schema) - NOTES - READ):
            raise BadRequest(
                f"a call in this model's format cannot be held to {unknown[0]!r} of a tool's schema",
                hint=f"Leave {unknown[0]} out of the schema, or send tool_choice auto without strict.",
                param="tools",
                openai_code="unsupported_parameter",
            )
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]))
        if "enum" in schema or "const" in schema:
            return _one_of([_literal(value) for value in schema.get("enum", [schema.get("const")])])
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return _one_of([self.value(option) for option in options])
        types = schema.get("type", [])
        return _one_of(
            [self._typed(kind, schema) for kind in ([types] if isinstance(types, str) else types)] or ["any"]
        )

    def _typed(self, kind: str, schema: dict[str, Any]) -> str:
        if kind == "array":
            item = self.value(schema.get("items"))
            return f'"[" ({item} ("," {item})*)? "]"'
        if kind == "object":
            return f'"{{" {self._members(schema)} "}}"' if schema.get("properties") else self._no_members(schema)
        return SCALARS.get(kind, "any")

    def _no_members(self, schema: dict[str, Any]) -> str:
        return '"{}"' if "properties" in schema or schema.get("additionalProperties") is False else "object"

    def _members(self, schema: dict[str, Any]) -> str:
        """Properties in the order in which the template writes them, those that are not required or not."""
        number, required = len(self.found), set(schema.get("required", []))
        names = sorted(schema["properties"], key=str.lower)
        for first in (True, False):  # whether a comma stands before the next
            self.found[f"m{number}_{len(names)}_{first}"] = '""'
        for index in reversed(range(len(names))):
            name = names[index]
            member = f"{json.dumps(name + ':', ensure_ascii=False)} {self.value(schema['properties'][name])}"
            for first in (True, False):
                there = f"{'' if first else json.dumps(',')} {member} m{number}_{index + 1}_False"
                left_out = "" if name in required else f" | m{number}_{index + 1}_{first}"
                self.found[f"m{number}_{index}_{first}"] = there + left_out
        return f"m{number}_0_True"

    def _reference(self, reference: str) -> str:
        if reference not in self._referenced:
            value: Any = self._root
            for key in reference.removeprefix("#").strip("/").split("/"):
                value = value.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(value, dict) else None
            rule = self._referenced[reference] = f"ref{len(self._referenced)}"
            self.found[rule] = self.value(value)
        return self._referenced[reference]


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"quote {json.dumps(value, ensure_ascii=False)} quote" if value else "quote quote"
    if isinstance(value, list | dict):
        return "any"
    return json.dumps(json.dumps(value))


def _one_of(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"
