"""What an answer must look like where a request leaves no choice: a call of a tool, a call or JSON,
a strict call.

The engine takes it as a structural tag, xgrammar's JSON form of a grammar (its documentation,
"Structural Tag"). Each schema stands alone in it, so that its ``$ref``s mean what their author
meant.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from gpu_runtime.rendering.calls.gemma_grammar import gemma_call
from gpu_runtime.rendering.harmony import (
    CHANNEL,
    CONSTRAIN,
    END,
    FUNCTIONS,
    MESSAGE,
    START,
    Harmony,
)
from gpu_runtime.rendering.tool_formats import ToolFormat

Grammar = dict[str, Any]
SHORT_ID: Grammar = {"type": "regex", "pattern": "[a-zA-Z0-9]{9}"}


def forced_call(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> str:
    """The structural tag of what follows ``prefill``: a call of one of ``tools`` (in normal form),
    or several.
    """
    return _tag(_framed_calls(call_format, tools, many=many))


def call_or_answer(
    call_format: ToolFormat, tools: Sequence[dict[str, Any]], schema: str, *, many: bool
) -> str:
    """The structural tag of an answer that is JSON of ``schema``, or a call of one of ``tools``, or
    several.
    """
    return _tag(_one_of([_json_of(schema), _calls(call_format, tools, many=many)]))


def text_then_calls(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> str:
    """The structural tag of free text, of calls, or of both where the format has both: what begins
    as a call is one.
    """
    calls = _calls(call_format, tools, many=many)
    if call_format.at_start:
        begins_otherwise = r"\s*([^\s" + re.escape(call_format.marker) + r"][\s\S]*)?"
        return _tag(_one_of([{"type": "regex", "pattern": begins_otherwise}, calls]))
    if call_format.marker_id is not None:
        free = {"type": "any_tokens", "exclude_tokens": [call_format.marker_id]}
    else:
        free = {"type": "any_text", "excludes": [call_format.marker]}
    return _tag(_row(free, {"type": "optional", "content": calls}))


def harmony_call(harmony: Harmony, tools: Sequence[dict[str, Any]]) -> str:
    """The structural tag of a forced call of one of ``tools``, after what the prompt has begun of
    it.
    """
    return _tag(_one_of([_row(*_call_from_name(harmony, tool)) for tool in tools]))


def harmony_answer(harmony: Harmony, tools: Sequence[dict[str, Any]], final: Grammar | None) -> str:
    """The structural tag of a row of messages that ends with a ``final`` one (None: any text) or,
    where there are ``tools``, with a call of one of them.
    """
    mark = {name: {"type": "token", "token": number} for name, number in harmony.ids.items()}
    free = {"type": "any_tokens", "exclude_tokens": sorted(harmony.ids.values())}
    begun = [
        _row(mark[CHANNEL], name, mark[MESSAGE], free)
        for name in ("analysis", "commentary")[: 1 + bool(tools)]
    ]
    before = _row(_one_of(begun), mark[END], mark[START], "assistant")
    last = [_row(mark[CHANNEL], "final", mark[MESSAGE], final or free)]
    for tool in tools:
        to, (name, *rest) = f"to={FUNCTIONS}", _call_from_name(harmony, tool)
        constrained = (f"commentary {to}{name} ", mark[CONSTRAIN], "json", *rest[2:])
        last += [_row(mark[CHANNEL], *constrained), _row(f" {to}{name}", *rest)]
    return _tag(_row({"type": "star", "content": before}, _one_of(last)))


def _json_of(schema: str) -> Grammar:
    """JSON of ``schema``; "{}" means any object."""
    return {
        "type": "json_schema",
        "json_schema": {"type": "object"} if schema == "{}" else json.loads(schema),
    }


def final_grammar(schema: str | None, tag: str | None) -> Grammar | None:
    """What a request wants of an answer's text: JSON of ``schema`` or the structural tag
    ``tag``.
    """
    if schema is not None:
        return _json_of(schema)
    form: Grammar | None = json.loads(tag)["format"] if tag is not None else None
    return form


def _call_from_name(harmony: Harmony, tool: dict[str, Any]) -> list[Grammar | str]:
    """A call from its name on, as the template writes it. Its end stops sampling, and such tokens
    stand in no grammar: they are what may come where it ends.
    """
    mark = {name: {"type": "token", "token": number} for name, number in harmony.ids.items()}
    arguments = {"type": "json_schema", "json_schema": tool["function"]["parameters"]}
    return [tool["function"]["name"], mark[CHANNEL], "commentary json", mark[MESSAGE], arguments]


def _calls(call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool) -> Grammar:
    """With their marker, as a model writes them by itself."""
    framed = _framed_calls(call_format, tools, many=many)
    if call_format.marker_id is not None:
        calls = _row({"type": "token", "token": call_format.marker_id}, framed)
    else:
        calls = _row(call_format.prefill, framed)
    return (
        _repeated(calls, call_format.between) if many and call_format.between is not None else calls
    )


def _framed_calls(
    call_format: ToolFormat, tools: Sequence[dict[str, Any]], *, many: bool
) -> Grammar:
    before, after = call_format.list_frame
    calls = _one_of([_call(tool["function"], call_format) for tool in tools])
    if many and call_format.separator is not None:
        calls = _repeated(calls, call_format.separator)
    return _row(before, calls, _mark(after, call_format.end_id))


def _call(function: dict[str, Any], call_format: ToolFormat) -> Grammar:
    if call_format.style == "xml":
        return _xml_call(function)
    if call_format.style == "gemma":
        marks = [
            mark
            for mark in (call_format.quote_id, call_format.marker_id, call_format.end_id)
            if mark is not None
        ]
        return {"type": "grammar", "grammar": gemma_call(function, call_format.quote_id, marks)}
    arguments = {"type": "json_schema", "json_schema": function["parameters"]}
    if call_format.arguments_mark:
        named = (
            [_mark(call_format.id_mark, call_format.id_mark_id), SHORT_ID]
            if call_format.id_mark
            else []
        )
        return _row(
            function["name"],
            *named,
            _mark(call_format.arguments_mark, call_format.arguments_mark_id),
            arguments,
        )
    return _row(
        f'{{"name": {json.dumps(function["name"])}, "{call_format.arguments_key}": ', arguments, "}"
    )


def _xml_call(function: dict[str, Any]) -> Grammar:
    """Without arguments there is no empty line for them, as the templates write it."""
    arguments = _row(
        {"type": "json_schema", "json_schema": function["parameters"], "style": "qwen_xml"}, "\n"
    )
    some = (
        arguments
        if function["parameters"].get("required")
        else {"type": "optional", "content": arguments}
    )
    return _row(f"<function={function['name']}>\n", some, "</function>")


def _mark(text: str, token_id: int | None) -> Grammar | str:
    return text if token_id is None else {"type": "token", "token": token_id}


def _row(*parts: Grammar | str) -> Grammar:
    texts = [
        {"type": "const_string", "value": part} if isinstance(part, str) else part
        for part in parts
        if part
    ]
    return {"type": "sequence", "elements": texts}


def _one_of(options: list[Grammar]) -> Grammar:
    return options[0] if len(options) == 1 else {"type": "or", "elements": options}


def _repeated(one: Grammar, separator: str) -> Grammar:
    return _row(one, {"type": "star", "content": _row(separator, one)})


def _tag(grammar: Grammar) -> str:
    return json.dumps({"type": "structural_tag", "format": grammar})
