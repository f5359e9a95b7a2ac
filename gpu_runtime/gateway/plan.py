"""What one chat request asks for, in the engine's terms: prompt, sampling options, and the message of an answer."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gpu_runtime.gateway.answer_reader import AnswerReader
from gpu_runtime.gateway.call_grammars import call_or_answer, forced_call, text_then_calls
from gpu_runtime.gateway.completion_requests import ChatRequest, NamedTool, SampledRequest
from gpu_runtime.gateway.errors import BadRequest
from gpu_runtime.gateway.messages import extended, normal, normal_answer
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.gateway.splicing import Conversation, Prompt, compose
from gpu_runtime.gateway.tool_calls import ParsedCall, ToolFormat
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.journal_records import Completion
from tinkerscript.wire.config import SessionConfig


@dataclass(frozen=True)
class ChatPlan:
    """A checked request with its identity: ``request_id`` names it among retries, ``agent`` says who asks."""

    request: ChatRequest
    renderer: Renderer
    body_sha256: str
    request_id: str | None = None
    agent: str | None = None

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """In normal form."""
        return [normal(message) for message in self.request.messages]

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """In normal form."""
        return [tool.normal() for tool in self.request.tools or []]

    @property
    def choices(self) -> int:
        """How many answers are asked for."""
        return self.request.n or 1

    @property
    def tool_format(self) -> ToolFormat | None:
        """How calls in the answer are read; none if the answer is plain text."""
        return self.renderer.tool_format if self.tools and self.request.tool_choice != "none" else None

    @property
    def forced(self) -> ToolFormat | None:
        """Set when the answer must be a call."""
        return self.tool_format if self.request.tool_choice not in (None, "auto", "none") else None

    def reader(self) -> AnswerReader:
        """What tells text and calls of one answer apart as it comes."""
        return AnswerReader(
            self.tool_format,
            is_forced=self.forced is not None,
            is_guaranteed=self._is_guaranteed,
            decode=self.renderer.decode,
        )

    def call_head(self, call_id: str, choice: int, index: int, name: str) -> dict[str, Any]:
        """Call number ``index`` of answer number ``choice``, without its arguments yet."""
        assert self.tool_format is not None, "there are no calls without tools"
        number = self.tool_format.call_id(f"{call_id}|{choice}|{index}")
        return {"id": number, "type": "function", "function": {"name": name, "arguments": ""}}

    def check(self) -> None:
        """Raises BadRequest for what this model cannot do."""
        if self.tools and self.renderer.tool_format is None:
            raise BadRequest(
                "this model's chat template has no tools, or writes calls in a way that is not known here",
                param="tools",
                openai_code="unsupported_parameter",
            )
        call_format = self.tool_format if self._may_call_or_answer else None
        if call_format is not None and call_format.marker_id is not None:
            raise BadRequest(
                f"response_format together with tools is not possible in this model's format ({call_format.name}),"
                " which begins a call with a special token",
                hint="Send one of the two, or a tool_choice other than auto.",
                param="response_format",
                openai_code="unsupported_parameter",
            )

    def compose(self, conversation: Conversation, context_length: int | None = None) -> Prompt:
        """The prompt, on the ids that the engine has seen where that is possible. Raises BadRequest.

        With a ``context_length`` a prompt that is far longer is refused before it is encoded.
        """
        asked = self.messages, self.tools, self.forced
        return compose(self.renderer, conversation, *asked, context_length=context_length)

    def sampling(self, config: SessionConfig, *, room: int, identity: str, choice: int) -> SamplingOptions:
        """How to sample answer number ``choice``, of at most ``room`` tokens."""
        grammar = self._grammar()
        schema = None if grammar else self.request.json_schema
        options = sampling_options(self.request, config, room=room, identity=identity, choice=choice)
        limit = min(options.max_tokens, self.request.max_completion_tokens or options.max_tokens)
        if self.request.max_tokens is None and self.request.max_completion_tokens is not None:
            limit = min(room, self.request.max_completion_tokens)
        top = self.request.top_logprobs or 0
        return replace(options, max_tokens=limit, top_logprobs=top, json_schema=schema, structural_tag=grammar)

    def completion(self, call_id: str, choice: int, deltas: Sequence[Delta], prompt: Prompt) -> Completion:
        """Answer number ``choice``, as it is kept and as later requests continue it."""
        plain = plain_completion(choice, deltas)
        message = self._message(call_id, choice, plain.text, plain.token_ids_T)
        return replace(plain, message=message, splice_key=extended(prompt.names[-1], normal_answer(message)))

    def options(self) -> dict[str, Any]:
        """The request without its messages, for the journal."""
        options = self.request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"messages"})
        return options | ({"forced_tool": True} if self.forced else {})

    @property
    def _may_call_or_answer(self) -> bool:
        """Whether the answer is one of two: a call, or JSON as response_format wants it."""
        return self.tool_format is not None and self.forced is None and self.request.json_schema is not None

    @property
    def _is_guaranteed(self) -> bool:
        """Whether a grammar sees to it that what begins as a call is one."""
        free = self.tool_format is not None and not self._may_call_or_answer
        return self.forced is not None or (free and bool(self.request.strict_tools))

    def _grammar(self) -> str | None:
        """What the answer must look like beyond a plain schema; a forced call is no answer that has a format."""
        many, choice = self.request.parallel_tool_calls is not False, self.request.tool_choice
        if (call_format := self.tool_format) is None:
            return None
        if self.forced is not None:
            named = choice.function.name if isinstance(choice, NamedTool) else None
            allowed = [tool for tool in self.tools if named in (None, tool["function"]["name"])]
            return forced_call(self.forced, allowed, many=many and named is None)
        if (schema := self.request.json_schema) is not None:
            return call_or_answer(call_format, self.tools, schema, many=many)
        if self._is_guaranteed:
            strict = self.request.strict_tools
            tools = [tool if tool["function"]["name"] in strict else _any_arguments(tool) for tool in self.tools]
            return text_then_calls(call_format, tools, many=many)
        return None

    def _message(self, call_id: str, choice: int, text: str, ids: Sequence[int]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if (call_format := self.tool_format) is None:
            return message
        if self._is_guaranteed:
            content, calls = self._read(text, ids)
        else:
            content, calls = call_format.parse(self._marked(text, ids, call_format.marker_id))
        if not calls:
            return message
        if self.request.parallel_tool_calls is False:
            calls = calls[:1]
        message["content"] = content or None
        message["tool_calls"] = heads = [self.call_head(call_id, choice, i, call.name) for i, call in enumerate(calls)]
        for head, call in zip(heads, calls, strict=True):
            head["function"]["arguments"] = call.arguments
        return message

    def _read(self, text: str, ids: Sequence[int]) -> tuple[str, list[ParsedCall]]:
        """Plain text and calls, as a stream of the same answer hands them out."""
        content, pieces = self.reader().more(text, ids)
        return content, [ParsedCall(piece.name or "", piece.arguments) for piece in pieces]

    def _marked(self, text: str, ids: Sequence[int], marker_id: int | None) -> str:
        """``text`` with the special token that marks a call, where there is one."""
        if marker_id is None or marker_id not in ids:
            return text
        body = ids[:-1] if ids and self.renderer.is_special(ids[-1]) else ids
        return self.renderer.decode(body, special=True)


def _any_arguments(tool: dict[str, Any]) -> dict[str, Any]:
    return tool | {"function": tool["function"] | {"parameters": {"type": "object"}}}


def sampling_options(
    request: SampledRequest, config: SessionConfig, *, room: int, identity: str, choice: int
) -> SamplingOptions:
    """The options that every kind of completion has."""
    return SamplingOptions(
        max_tokens=min(room, config.max_tokens if request.max_tokens is None else request.max_tokens),
        temperature=config.temperature if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        stop=request.stops,
        seed=None if request.seed is None else mixed_seed(request.seed, identity, choice),
    )


def plain_completion(choice: int, deltas: Sequence[Delta]) -> Completion:
    """What was sampled, as plain text."""
    text = "".join(delta.text for delta in deltas)
    return Completion(
        choice=choice,
        token_ids_T=tuple(token for delta in deltas for token in delta.token_ids_T),
        logprobs_T=tuple(logprob for delta in deltas for logprob in delta.logprobs_T),
        versions_T=tuple(delta.version for delta in deltas for _ in delta.token_ids_T),
        text=text,
        finish_reason=deltas[-1].finish_reason if deltas else None,
        message={"role": "assistant", "content": text},
        stop_reason=deltas[-1].stop_reason if deltas else None,
        top_logprobs_T=tuple(top for delta in deltas for top in delta.top_logprobs_T),
    )


def mixed_seed(seed: int, identity: str, choice: int) -> int:
    """A client's seed for one answer: clients that always send the same must not make a group's episodes equal."""
    digest = hashlib.sha256(f"{seed}|{identity}|{choice}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
