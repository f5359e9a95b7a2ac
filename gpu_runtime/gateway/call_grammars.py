"""What an answer must look like where a request leaves no choice: a call of a tool, or a call or a JSON answer.

The engine takes it as a structural tag, xgrammar's JSON form of a grammar (its documentation, "Structural Tag"). Each
schema stands alone in it, so that its ``$ref``s mean what their author meant.
"""

import json
from collections.abc import Sequence
from typing import Any

from gpu_runtime.gateway.tool_calls import ToolFormat

Grammar = dict[str, Any]


def forced_call(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> str:
    """The structural tag of what follows ``prefill``: a call of one of ``tools`` (in normal form), or several."""
    return _tag(_framed_calls(call_format, tools, many=many))


def call_or_answer(call_format: ToolFormat, tools: Sequence[dict[str, Any]], schema: str, *, many: bool) -> str:
    """The structural tag of an answer that is JSON of ``schema``, or a call of one of ``tools``, or several."""
    call = _row(call_format.prefill or "", _framed_calls(call_format, tools, many=many), call_format.closing)
    if many and call_format.between is not None:
        call = _repeated(call, call_format.between)
    answer = {"type": "object"} if schema == "{}" else json.loads(schema)
    return _tag(_one_of([{"type": "json_schema", "json_schema": answer}, call]))


def _framed_calls(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> Grammar:
    before, after = call_format.list_frame
    calls = _one_of([_call(tool["function"], call_format.arguments_key) for tool in tools])
    if many and call_format.separator is not None:
        calls = _repeated(calls, call_format.separator)
    return _row(before, calls, after)


def _call(function: dict[str, Any], arguments_key: str) -> Grammar:
    arguments = {"type": "json_schema", "json_schema": function["parameters"]}
    return _row(f'{{"name": {json.dumps(function["name"])}, "{arguments_key}": ', arguments, "}")


def _row(*parts: Grammar | str) -> Grammar:
    texts = [{"type": "const_string", "value": part} if isinstance(part, str) else part for part in parts if part]
    return {"type": "sequence", "elements": texts}


def _one_of(options: list[Grammar]) -> Grammar:
    return options[0] if len(options) == 1 else {"type": "or", "elements": options}


def _repeated(one: Grammar, separator: str) -> Grammar:
    return _row(one, {"type": "star", "content": _row(separator, one)})


def _tag(grammar: Grammar) -> str:
    return json.dumps({"type": "structural_tag", "format": grammar})
