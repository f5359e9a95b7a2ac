"""Tools of type ``custom``, whose input is one text: to a model they are strict functions with one
string.
"""

import json
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def as_function(custom: Any) -> dict[str, Any]:
    """The function that a custom tool is. Raises ValueError for an input that is not free text."""
    if not isinstance(custom, dict):
        raise ValueError("a tool of type custom has an object custom")
    form = custom.get("format") or {"type": "text"}
    if form != {"type": "text"}:
        raise ValueError(
            "the input of a custom tool is free text here; for a grammar send a strict function"
        )
    kept = {name: value for name, value in custom.items() if name != "format" and value is not None}
    return kept | {"parameters": SCHEMA, "strict": True}


def arguments_of(text: Any) -> str:
    """The arguments of the function for the input ``text``."""
    return json.dumps({"input": text})


def input_of(arguments: str) -> str:
    """The input in the function's ``arguments``; what there is of them where they were cut
    short.
    """
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    found = value.get("input", "") if isinstance(value, dict) else value
    return found if isinstance(found, str) else json.dumps(found)


def as_custom(call: dict[str, Any]) -> dict[str, Any]:
    """A recorded call in the chat dialect's form of a custom tool's."""
    function = call["function"]
    custom = {"name": function["name"], "input": input_of(function["arguments"])}
    return {"id": call["id"], "type": "custom", "custom": custom}
