"""What one chat request asks for, in the engine's terms: prompt, sampling options, and the message
of an answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from gpu_runtime.generation.bounds.schema_bounds import schema_bound
from gpu_runtime.generation.bounds.thinking_budget import ThinkingBudget, budget_check, budget_of
from gpu_runtime.generation.engine_options import check_tokens
from gpu_runtime.generation.loop_check import check_loop
from gpu_runtime.generation.one_call import OneCall
from gpu_runtime.generation.requests import ChatRequest
from gpu_runtime.generation.sampling import plain_completion, sampling_options
from gpu_runtime.generation.stop_strings import StopStrings
from gpu_runtime.generation.tools import NamedTool
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal.records import Completion
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.answer_parser import AnswerParser
from gpu_runtime.rendering.conversation import Conversation
from gpu_runtime.rendering.harmony import Harmony, HarmonyParser
from gpu_runtime.rendering.messages import extended, normal, normal_answer
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.splicing import Prompt, compose
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
from tinkerscript.wire.config import SessionConfig

Reader = AnswerParser | HarmonyParser
Cutter = OneCall | StopStrings
# a label: the answers of which the lenient rule made calls, or others
SLIPS = "calls read with slips"


@dataclass(frozen=True)
class PreparedChat:
    """A checked request with its identity: retries share its ``request_id``, ``agent`` is its
    X-Agent label.
    """

    request: ChatRequest
    renderer: Renderer
    body_sha256: str
    request_id: str | None = None
    agent: str | None = None
    # of the dialect's own, kept with the call's options
    notes: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages in normal form (``rendering.messages.normal``)."""
        return [normal(message) for message in self.request.messages]

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """The request's tools in normal form; empty without any."""
        return [tool.normal() for tool in self.request.tools or []]

    @property
    def choices(self) -> int:
        """How many completions are requested."""
        return self.request.n or 1

    @property
    def tool_format(self) -> ToolFormat | None:
        """How calls in the answer are read; None if the answer is plain text."""
        may_call = self.tools and self.request.tool_choice != "none" and self.renderer.tool_format
        return may_call.for_tools(self.tools) if may_call else None

    @property
    def forced(self) -> ToolFormat | None:
        """Set when the answer must be a call."""
        return self.tool_format if self.request.must_call else None

    def reader(self) -> Reader:
        """A parser that separates thoughts, text and calls of one answer as it arrives."""
        if (harmony := self.renderer.harmony) is not None:
            return harmony.parser(
                self.renderer.decode,
                may_call=self.tool_format is not None,
                is_forced=self.forced is not None,
                is_guaranteed=self._is_guaranteed,
            )
        return self._parser(self.tool_format, self._thoughts)

    def cutters(self) -> list[Cutter]:
        """What ends one answer where the engine does not: at a stop string behind thoughts, after
        its first call.
        """
        found: list[Cutter] = []
        if self._stops_follow_thoughts:
            least = self.request.min_tokens or 0
            found.append(
                StopStrings(
                    self.request.stops, self.reader(), self.renderer.decode, min_tokens=least
                )
            )
        is_one_at_most = self.renderer.harmony is not None  # it ends with its first call by itself
        if (
            self._wants_one_call
            and self.tool_format
            and not is_one_at_most
            and self._grammar is None
        ):
            found.append(OneCall(self.tool_format, self.renderer.decode))
        return found

    @property
    def thinking_budget(self) -> ThinkingBudget | None:
        """What ends the thoughts of one answer; None where nothing does."""
        return budget_of(
            self.request, self._thoughts, self.renderer, partial(self._parser, None, self._thoughts)
        )

    def call_head(
        self, call_id: str, choice: int, index: int, name: str, given_id: str | None = None
    ) -> dict[str, Any]:
        """Call number ``index`` of answer number ``choice``, without its arguments yet.

        ``given_id`` is one that the model wrote: the template writes it beside the call's result.
        """
        assert self.tool_format is not None, "there are no calls without tools"
        number = given_id or self.tool_format.call_id(f"{call_id}|{choice}|{index}")
        return {"id": number, "type": "function", "function": {"name": name, "arguments": ""}}

    def check(self) -> None:
        """Raises BadRequest for what this model cannot do."""
        check_tokens(self.request, self.renderer.vocabulary)
        if self.tools and self.renderer.tool_format is None:
            raise BadRequest(
                "this model's chat template has no tools, or writes calls in a way that is not "
                "known here",
                param="tools",
                openai_code="unsupported_parameter",
            )
        budget_check(self.request, self._thoughts, has_grammar=self._is_bound)
        check_loop(self.messages, self.renderer, has_tools=bool(self.tools))
        call_format = self.tool_format if self._may_call_or_answer else None
        if call_format is not None and call_format.marker_id is not None:
            raise BadRequest(
                "response_format together with tools is not possible in this model's format "
                f"({call_format.name}),"
                " which begins a call with a special token",
                hint="Send one of the two, or a tool_choice other than auto.",
                param="response_format",
                openai_code="unsupported_parameter",
            )
        if self.tool_format is not None and self._structure is not None:
            raise BadRequest(
                "structured_outputs other than json cannot be combined with tools: an answer "
                "follows one grammar",
                hint="Send one of the two, or tool_choice none.",
                param="structured_outputs",
                openai_code="unsupported_parameter",
            )

    def compose(self, conversation: Conversation, context_length: int | None = None) -> Prompt:
        """The prompt, on the ids that the engine has seen where that is possible. Raises
        BadRequest.

        With a ``context_length`` a prompt that is far longer is refused before it is encoded.
        """
        asked = self.messages, self.tools, self.forced
        return compose(self.renderer, conversation, *asked, context_length=context_length)

    def sampling(
        self, config: SessionConfig, *, room: int, identity: str, choice: int
    ) -> SamplingOptions:
        """How to sample answer number ``choice``, of at most ``room`` tokens."""
        grammar = self._grammar
        schema = None if grammar else self.request.json_schema
        options = sampling_options(
            self.request, config, room=room, identity=identity, choice=choice
        )
        if not options.ignore_eos:
            options = replace(
                options, stop_token_ids=(*options.stop_token_ids, *self.renderer.stop_ids)
            )
        if self._stops_follow_thoughts:
            options = replace(options, stop=())
        top = self.request.top_logprobs or 0
        return replace(options, top_logprobs=top, json_schema=schema, structural_tag=grammar)

    def completion(
        self, call_id: str, choice: int, deltas: Sequence[Delta], prompt: Prompt
    ) -> Completion:
        """Answer number ``choice``, as it is kept and as later requests continue it."""
        plain = plain_completion(choice, deltas)
        message = self._message(call_id, choice, plain.text, plain.token_ids_T)
        return replace(
            plain, message=message, splice_key=extended(prompt.names[-1], normal_answer(message))
        )

    def options(self) -> dict[str, Any]:
        """The request without its messages, for the journal."""
        options = self.request.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"messages"}
        )
        variables = (
            {"template_variables": self.renderer.variables} if self.renderer.variables else {}
        )
        return (
            options | variables | dict(self.notes) | ({"forced_tool": True} if self.forced else {})
        )

    def slips(self, completions: Sequence[Completion]) -> dict[str, Any]:
        """Labels of ``completions`` whose calls are calls by the lenient rule alone, or are other
        ones.
        """
        if (
            self.tool_format is None
            or not self.tool_format.is_lenient
            or self._is_guaranteed
            or self.renderer.harmony
        ):
            return {}
        strict = self.tool_format.strict, self.renderer.thoughts_after(self.messages)
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
            is_guaranteed=self._is_guaranteed,
            marks=self.renderer.marked_text(thoughts, call_format),
            thoughts=thoughts,
        )

    @property
    def _thoughts(self) -> ThoughtFormat | None:
        """A forced call begins where thoughts would."""
        return (
            self.renderer.thoughts_after(self.messages, self.tool_format)
            if self.forced is None
            else None
        )

    @property
    def _stops_follow_thoughts(self) -> bool:
        """Whether the answer may have thoughts, in which stop strings mean nothing."""
        return bool(self.request.stops) and (
            self._thoughts is not None or self.renderer.harmony is not None
        )

    @property
    def _is_bound(self) -> bool:
        return self._grammar is not None or self.request.json_schema is not None

    @property
    def _may_call_or_answer(self) -> bool:
        """Whether the answer is one of two: a call, or JSON as response_format wants it."""
        return (
            self.tool_format is not None
            and self.forced is None
            and self.request.json_schema is not None
        )

    @property
    def _is_guaranteed(self) -> bool:
        """Whether a grammar sees to it that what begins as a call is one."""
        if self.forced is not None or self.tool_format is None:
            return self.forced is not None
        # A cut after the first call is possible where calls stand alone, in text.
        cannot_cut = self.tool_format.lists_calls or self.tool_format.marker_id is not None
        wanted = bool(self.request.strict_tools) or (self._wants_one_call and cannot_cut)
        wanted = wanted or self.request.chosen_tools is not None
        return wanted and not self._may_call_or_answer

    @property
    def _wants_one_call(self) -> bool:
        return self.request.parallel_tool_calls is False

    @property
    def _structure(self) -> str | None:
        return self.request.structured_outputs.tag if self.request.structured_outputs else None

    @cached_property
    def _grammar(self) -> str | None:
        """What the answer must look like beyond a plain schema; a forced call is no answer that has
        a format.

        Raises BadRequest for schemas that are too large, before anything is made of them.
        """
        self._bound_schemas()
        if self.renderer.harmony is not None:
            return self._harmony_grammar(self.renderer.harmony)
        if (call_format := self.tool_format) is None:
            return self._structure
        many = not self._wants_one_call and not call_format.single
        if self.forced is not None:
            is_named = isinstance(self.request.tool_choice, NamedTool)
            return forced_call(self.forced, self._callable, many=many and not is_named)
        if (schema := self.request.json_schema) is not None:
            return call_or_answer(call_format, self._callable, schema, many=many)
        return (
            text_then_calls(call_format, self._callable, many=many) if self._is_guaranteed else None
        )

    def _bound_schemas(self) -> None:
        if self.tool_format is not None:
            schema_bound([tool["function"]["parameters"] for tool in self._callable], param="tools")
        if (
            self.forced is None
            and (asked := self.request.json_schema or self._structure) is not None
        ):
            schema_bound(
                json.loads(asked),
                param="response_format" if self.request.response_format else "structured_outputs",
            )

    def _harmony_grammar(self, harmony: Harmony) -> str | None:
        if self.forced is not None:
            return harmony_call(harmony, self._callable)
        final = final_grammar(self.request.json_schema, self._structure)
        if final is None and not self._is_guaranteed:
            return None
        return harmony_answer(harmony, self._callable if self.tool_format else [], final)

    @property
    def _callable(self) -> list[dict[str, Any]]:
        """The tools that may be called, with the schemas that their arguments are held to."""
        chosen, strict = self.request.chosen_tools, self.request.strict_tools
        tools = [
            tool for tool in self.tools if chosen is None or tool["function"]["name"] in chosen
        ]
        is_held = self.forced is not None or self._may_call_or_answer
        return [
            tool if is_held or tool["function"]["name"] in strict else _any_arguments(tool)
            for tool in tools
        ]

    def _message(self, call_id: str, choice: int, text: str, ids: Sequence[int]) -> dict[str, Any]:
        thoughts, content, calls = self.reader().whole(text, ids)
        # several may be left where one had a slip
        calls = calls[:1] if self._wants_one_call else calls
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


def _any_arguments(tool: dict[str, Any]) -> dict[str, Any]:
    return tool | {"function": tool["function"] | {"parameters": {"type": "object"}}}
