"""The grammar that binds the answer to a chat request, from its tools and its response format."""

import json
from typing import Any

from gpu_runtime.generation.bounds.schema_bounds import schema_bound
from gpu_runtime.generation.requests import ChatRequest
from gpu_runtime.generation.tools import NamedTool
from gpu_runtime.rendering.harmony import Harmony
from gpu_runtime.rendering.tool_formats import ToolFormat
from gpu_runtime.rendering.tool_grammars import (
    call_or_answer,
    final_grammar,
    forced_call,
    harmony_answer,
    harmony_call,
    text_then_calls,
)


def answer_grammar(
    request: ChatRequest,
    harmony: Harmony | None,
    call_format: ToolFormat | None,
    *,
    is_guaranteed: bool,
    may_call_or_answer: bool,
) -> str | None:
    """The structural tag of the answer; None for free text, and for a plain schema. A forced call
    is no answer that has a format.

    Raises BadRequest for schemas that are too large, before anything is made of them.
    """
    is_forced = request.must_call and call_format is not None
    tools = callable_tools(request, are_held=is_forced or may_call_or_answer)
    if call_format is not None:
        schema_bound([tool["function"]["parameters"] for tool in tools], param="tools")
    if not is_forced and (asked := request.json_schema or request.structure) is not None:
        param = "response_format" if request.response_format else "structured_outputs"
        schema_bound(json.loads(asked), param=param)
    if harmony is not None:
        if is_forced:
            return harmony_call(harmony, tools)
        final = final_grammar(request.json_schema, request.structure)
        if final is None and not is_guaranteed:
            return None
        return harmony_answer(harmony, tools if call_format else [], final)
    if call_format is None:
        return request.structure
    many = not request.wants_one_call and not call_format.single
    if is_forced:
        is_named = isinstance(request.tool_choice, NamedTool)
        return forced_call(call_format, tools, many=many and not is_named)
    if request.json_schema is not None:
        return call_or_answer(call_format, tools, request.json_schema, many=many)
    return text_then_calls(call_format, tools, many=many) if is_guaranteed else None


def callable_tools(request: ChatRequest, *, are_held: bool) -> list[dict[str, Any]]:
    """The tools that may be called, with the schemas that their arguments are held to: all of them
    where ``are_held``, else those of strict tools.
    """
    chosen, strict = request.chosen_tools, request.strict_tools
    return [
        tool
        if are_held or tool["function"]["name"] in strict
        else tool | {"function": tool["function"] | {"parameters": {"type": "object"}}}
        for tool in request.normal_tools
        if chosen is None or tool["function"]["name"] in chosen
    ]
