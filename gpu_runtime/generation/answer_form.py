"""The form of the answers to one chat request: text, thoughts, calls or a structure, the grammar
that binds them, and what reads them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from gpu_runtime.generation.answer_cutters import OneCall, StopStrings
from gpu_runtime.generation.requests import ChatRequest, NamedTool
from gpu_runtime.generation.schemas import schema_bound
from gpu_runtime.generation.thinking_budget import ThinkingBudget
from gpu_runtime.journal.records import Completion
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.answer_parser import AnswerParser
from gpu_runtime.rendering.harmony import HarmonyParser
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.thoughts import ThoughtFormat
from gpu_runtime.rendering.tool_formats import ToolFormat
from gpu_runtime.rendering.tool_grammars import (
    call_or_answer,
    final_grammar,
    forced_call,
    harmony_answer,
    harmony_call,
    text_then_calls,
)

Reader = AnswerParser | HarmonyParser
Cutter = OneCall | StopStrings
# a label: the answers of which the lenient rule made calls, or others
SLIPS = "calls read with slips"


@dataclass(frozen=True)
class AnswerForm:
    """Each part is decided once, from the request and the model's template. ``renderer`` has the
    variables that the request sets.
    """

    request: ChatRequest
    renderer: Renderer

    @cached_property
    def tool_format(self) -> ToolFormat | None:
        """How calls in the answer are read; None if the answer is plain text."""
        tools = self.request.normal_tools
        may_call = tools and self.request.tool_choice != "none" and self.renderer.tool_format
        return may_call.for_tools(tools) if may_call else None

    @cached_property
    def forced(self) -> ToolFormat | None:
        """Set when the answer must be a call."""
        return self.tool_format if self.request.must_call else None

    @cached_property
    def thoughts(self) -> ThoughtFormat | None:
        """How thoughts stand in the answer. A forced call begins where thoughts would."""
        if self.forced is not None:
            return None
        return self.renderer.thoughts_after(self.request.normal_messages, self.tool_format)

    @cached_property
    def is_guaranteed(self) -> bool:
        """Whether a grammar sees to it that what begins as a call is one."""
        if self.forced is not None or self.tool_format is None:
            return self.forced is not None
        # A cut after the first call is possible where calls stand alone, in text.
        cannot_cut = self.tool_format.lists_calls or self.tool_format.marker_id is not None
        wanted = bool(self.request.strict_tools) or (self.request.wants_one_call and cannot_cut)
        wanted = wanted or self.request.chosen_tools is not None
        return wanted and not self.may_call_or_answer

    @property
    def may_call_or_answer(self) -> bool:
        """Whether the answer is one of two: a call, or JSON as response_format wants it."""
        return (
            self.tool_format is not None
            and self.forced is None
            and self.request.json_schema is not None
        )

    @cached_property
    def grammar(self) -> str | None:
        """What the answer must look like beyond a plain schema: its structural tag; None for free
        text, and for a plain schema. A forced call is no answer that has a format.

        Raises BadRequest for schemas that are too large, before anything is made of them.
        """
        request, call_format, harmony = self.request, self.tool_format, self.renderer.harmony
        is_forced = self.forced is not None
        tools = self._callable_tools(are_held=is_forced or self.may_call_or_answer)
        if call_format is not None:
            schema_bound([tool["function"]["parameters"] for tool in tools], param="tools")
        if not is_forced and (asked := request.json_schema or request.structure) is not None:
            param = "response_format" if request.response_format else "structured_outputs"
            schema_bound(json.loads(asked), param=param)
        if harmony is not None:
            if is_forced:
                return harmony_call(harmony, tools)
            final = final_grammar(request.json_schema, request.structure)
            if final is None and not self.is_guaranteed:
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
        return text_then_calls(call_format, tools, many=many) if self.is_guaranteed else None

    @property
    def stops_follow_thoughts(self) -> bool:
        """Whether the answer may have thoughts, in which stop strings mean nothing."""
        return bool(self.request.stops) and (
            self.thoughts is not None or self.renderer.harmony is not None
        )

    @property
    def thinking_budget(self) -> ThinkingBudget | None:
        """What ends the thoughts of one answer; None where nothing does."""
        tokens, thoughts, renderer = self.request.thinking_budget, self.thoughts, self.renderer
        if tokens is None or thoughts is None:
            return None
        closing, reader = renderer.encode(thoughts.closing), partial(self._parser, None, thoughts)
        return ThinkingBudget(tokens, closing, reader, renderer.decode, renderer.vocabulary)

    def check(self) -> None:
        """Raises BadRequest for a form that this model cannot write, and for two that exclude each
        other.
        """
        if self.request.normal_tools and self.renderer.tool_format is None:
            raise BadRequest(
                "this model's chat template has no tools, or writes calls in a way that is not "
                "known here",
                param="tools",
                openai_code="unsupported_parameter",
            )
        # made in any case: a schema that is too large is refused here
        is_bound = self.grammar is not None or self.request.json_schema is not None
        if self.request.thinking_budget is not None:
            self._check_budget(has_grammar=is_bound)
        call_format = self.tool_format if self.may_call_or_answer else None
        if call_format is not None and call_format.marker_id is not None:
            raise BadRequest(
                "response_format together with tools is not possible in this model's format "
                f"({call_format.name}),"
                " which begins a call with a special token",
                hint="Send one of the two, or a tool_choice other than auto.",
                param="response_format",
                openai_code="unsupported_parameter",
            )
        if self.tool_format is not None and self.request.structure is not None:
            raise BadRequest(
                "structured_outputs other than json cannot be combined with tools: an answer "
                "follows one grammar",
                hint="Send one of the two, or tool_choice none.",
                param="structured_outputs",
                openai_code="unsupported_parameter",
            )

    def reader(self) -> Reader:
        """A parser that separates thoughts, text and calls of one answer as it arrives."""
        if (harmony := self.renderer.harmony) is not None:
            return harmony.parser(
                self.renderer.decode,
                may_call=self.tool_format is not None,
                is_forced=self.forced is not None,
                is_guaranteed=self.is_guaranteed,
            )
        return self._parser(self.tool_format, self.thoughts)

    def cutters(self) -> list[Cutter]:
        """What ends one answer where the engine does not: at a stop string behind thoughts, after
        its first call.
        """
        found: list[Cutter] = []
        stops, decode = self.request.stops, self.renderer.decode
        if self.stops_follow_thoughts:
            least = self.request.min_tokens or 0
            found.append(StopStrings(stops, self.reader(), decode, min_tokens=least))
        is_one_at_most = self.renderer.harmony is not None  # it ends with its first call by itself
        may_have_more = self.request.wants_one_call and not is_one_at_most
        if may_have_more and self.tool_format and self.grammar is None:
            found.append(OneCall(self.tool_format, decode))
        return found

    def call_head(
        self, call_id: str, choice: int, index: int, name: str, given_id: str | None = None
    ) -> dict[str, Any]:
        """Call number ``index`` of answer number ``choice``, without its arguments yet.

        ``given_id`` is one that the model wrote: the template writes it beside the call's result.
        """
        assert self.tool_format is not None, "there are no calls without tools"
        number = given_id or self.tool_format.call_id(f"{call_id}|{choice}|{index}")
        return {"id": number, "type": "function", "function": {"name": name, "arguments": ""}}

    def message(self, call_id: str, choice: int, text: str, ids: Sequence[int]) -> dict[str, Any]:
        """The whole answer number ``choice`` as a message of the chat."""
        thoughts, content, calls = self.reader().whole(text, ids)
        # several may be left where one had a slip
        calls = calls[:1] if self.request.wants_one_call else calls
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if thoughts:
            message["reasoning_content"] = thoughts
        if not calls:
            return message
        message["content"] = content or None
        message["tool_calls"] = heads = [
            self.call_head(call_id, choice, index, call.name, call.id)
            for index, call in enumerate(calls)
        ]
        for head, call in zip(heads, calls, strict=True):
            head["function"]["arguments"] = call.arguments
        return message

    def slips(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """Labels of ``completions`` whose calls are calls by the lenient rule alone, or are other
        ones.
        """
        if (
            self.tool_format is None
            or not self.tool_format.is_lenient
            or self.is_guaranteed
            or self.renderer.harmony
        ):
            return {}
        strict = (
            self.tool_format.strict,
            self.renderer.thoughts_after(self.request.normal_messages),
        )
        found = []
        for completion in completions:
            if completion.message.get("tool_calls"):
                said = completion.text, completion.token_ids_T
                if self.reader().whole(*said) != self._parser(*strict).whole(*said):
                    found.append(completion.choice)
        return {SLIPS: found} if found else {}

    def _parser(
        self, call_format: ToolFormat | None, thoughts: ThoughtFormat | None
    ) -> AnswerParser:
        return AnswerParser(
            call_format,
            is_forced=self.forced is not None,
            is_guaranteed=self.is_guaranteed,
            marks=self.renderer.marked_text(thoughts, call_format),
            thoughts=thoughts,
        )

    def _callable_tools(self, *, are_held: bool) -> list[dict[str, Any]]:
        """The tools that may be called, with the schemas that their arguments are held to: all of
        them where ``are_held``, else those of strict tools.
        """
        chosen, strict = self.request.chosen_tools, self.request.strict_tools
        return [
            tool
            if are_held or tool["function"]["name"] in strict
            else tool | {"function": tool["function"] | {"parameters": {"type": "object"}}}
            for tool in self.request.normal_tools
            if chosen is None or tool["function"]["name"] in chosen
        ]

    def _check_budget(self, *, has_grammar: bool) -> None:
        """Raises BadRequest for a budget where nothing can be ended, and beside a grammar, which
        would begin anew."""
        if self.thoughts is None:
            raise BadRequest(
                "thinking_budget: an answer to this request has no thoughts whose end can be "
                "written",
                hint="Leave it out.",
                param="thinking_budget",
                openai_code="unsupported_parameter",
            )
        if has_grammar:
            raise BadRequest(
                "thinking_budget cannot be combined with a grammar (response_format, strict tools, "
                "structured_outputs)",
                hint="Send one of the two.",
                param="thinking_budget",
                openai_code="unsupported_parameter",
            )
