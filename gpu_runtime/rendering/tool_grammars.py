"""What an answer must look like where a request leaves no choice: a call of a tool, a call or JSON, a strict call.

The engine takes it as a structural tag, xgrammar's JSON form of a grammar (its documentation, "Structural Tag"). Each
schema stands alone in it, so that its ``$ref``s mean what their author meant.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from gpu_runtime.rendering.tool_formats import ToolFormat

Grammar = dict[str, Any]


def forced_call(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> str:
    """The structural tag of what follows ``prefill``: a call of one of ``tools`` (in normal form), or several."""
    return _tag(_framed_calls(call_format, tools, many=many))


def call_or_answer(call_format: ToolFormat, tools: Sequence[dict[str, Any]], schema: str, *, many: bool) -> str:
    """The structural tag of an answer that is JSON of ``schema``, or a call of one of ``tools``, or several."""
    answer = {"type": "object"} if schema == "{}" else json.loads(schema)
    return _tag(_one_of([{"type": "json_schema", "json_schema": answer}, _calls(call_format, tools, many=many)]))


def text_then_calls(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> str:
    """The structural tag of free text, of calls, or of both where the format has both: what begins as a call is one."""
    calls = _calls(call_format, tools, many=many)
    if call_format.at_start:
        begins_otherwise = r"\s*([^\s" + re.escape(call_format.marker) + r"][\s\S]*)?"
        return _tag(_one_of([{"type": "regex", "pattern": begins_otherwise}, calls]))
    if call_format.marker_id is not None:
        free = {"type": "any_tokens", "exclude_tokens": [call_format.marker_id]}
    else:
        free = {"type": "any_text", "excludes": [call_format.marker]}
    return _tag(_row(free, {"type": "optional", "content": calls}))


def _calls(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> Grammar:
    """With their marker, as a model writes them by itself."""
    framed = _framed_calls(call_format, tools, many=many)
    if call_format.marker_id is not None:
        calls = _row({"type": "token", "token": call_format.marker_id}, framed)
    else:
        calls = _row(call_format.prefill, framed)
    return _repeated(calls, call_format.between) if many and call_format.between is not None else calls


def _framed_calls(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> Grammar:
    before, after = call_format.list_frame
    calls = _one_of([_call(tool["function"], call_format) for tool in tools])
    if many and call_format.separator is not None:
        calls = _repeated(calls, call_format.separator)
    return _row(before, calls, after)


def _call(function: dict[str, Any], call_format: ToolFormat) -> Grammar:
    arguments = {"type": "json_schema", "json_schema": function["parameters"]}
    if call_format.arguments_mark_id is not None:
        return _row(function["name"], {"type": "token", "token": call_format.arguments_mark_id}, arguments)
    if call_format.arguments_mark:
        return _row(f"{function['name']}{call_format.arguments_mark}", arguments)
    return _row(f'{{"name": {json.dumps(function["name"])}, "{call_format.arguments_key}": ', arguments, "}")


def _row(*parts: Grammar | str) -> Grammar:
    texts = [{"type": "const_string", "value": part} if isinstance(part, str) else part for part in parts if part]
    return {"type": "sequence", "elements": texts}


def _one_of(options: list[Grammar]) -> Grammar:
    return options[0] if len(options) == 1 else {"type": "or", "elements": options}


def _repeated(one: Grammar, separator: str) -> Grammar:
    return _row(one, {"type": "star", "content": _row(separator, one)})


def _tag(grammar: Grammar) -> str:
    return json.dumps({"type": "structural_tag", "format": grammar})
