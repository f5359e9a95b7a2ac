"""Requests for completions and the tools that they describe, checked strictly: what is not
supported is named, never ignored.
"""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from gpu_runtime.generation.engine_options import EngineOptions, StrictOptions, TemplateOptions
from gpu_runtime.rendering.custom_tools import as_function
from gpu_runtime.rendering.messages import Message, normal, normal_tool

MAX_STOPS, MAX_PROMPTS = 16, 128
NAME_LETTERS = 128  # at most, as Anthropic's have; OpenAI's 64
ToolName = Annotated[str, Field(min_length=1, max_length=NAME_LETTERS, pattern="^[a-zA-Z0-9_.-]+$")]


class Function(StrictOptions):
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(StrictOptions):
    """A function, or a custom tool as the function that it is to the model."""

    type: Literal["function", "custom"]
    function: Function

    @model_validator(mode="before")
    @classmethod
    def _custom_is_a_function(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("type") != "custom":
            return value
        return {n: v for n, v in value.items() if n != "custom"} | {
            "function": as_function(value.get("custom"))
        }

    def normal(self) -> dict[str, Any]:
        """The form that templates read."""
        return normal_tool(self.function.model_dump())


class NamedFunction(StrictOptions):
    name: str


class NamedTool(StrictOptions):
    type: Literal["function", "custom"]
    function: NamedFunction

    @model_validator(mode="before")
    @classmethod
    def _custom_is_a_function(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("type") != "custom":
            return value
        return {n: v for n, v in value.items() if n != "custom"} | {"function": value.get("custom")}


class ToolSubset(StrictOptions):
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class AllowedTools(StrictOptions):
    """All tools are described to the model, and these alone can be called."""

    type: Literal["allowed_tools"]
    allowed_tools: ToolSubset


class StreamOptions(StrictOptions):
    include_usage: bool | None = None


class JsonSchema(StrictOptions):
    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")
    strict: bool | None = None


class TextFormat(StrictOptions):
    type: Literal["text"]


class JsonObjectFormat(StrictOptions):
    type: Literal["json_object"]


class JsonSchemaFormat(StrictOptions):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
StopString = Annotated[str, Field(min_length=1, max_length=256)]


class Thinking(StrictOptions):
    """Anthropic's switch, which other dialects have taken over; its other fields are labels.

    ``budget_tokens`` is a thinking_budget where the answer has thoughts that can be ended.
    ``between_tools`` is ``disabled`` for models that write progress between calls; none does here.
    """

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None


class SampledRequest(EngineOptions):
    """What chat and text completions share."""

    model: str
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    n: int | None = Field(None, ge=1, le=128)
    stop: StopString | Annotated[list[StopString], Field(max_length=MAX_STOPS)] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    metadata: dict[str, str] | None = None

    @model_validator(mode="after")
    def _stream_fits(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true")
        if self.stream and self.prompt_logprobs is not None:
            raise ValueError("prompt_logprobs needs stream: false")
        return self

    @model_validator(mode="after")
    def _tokens_fit(self) -> Self:
        if self.min_tokens and self.most_tokens is not None and self.min_tokens > self.most_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) is above the most that is asked for "
                f"({self.most_tokens})"
            )
        return self

    @property
    def most_tokens(self) -> int | None:
        """The length of an answer that is asked for; None leaves it to the session."""
        return self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings as a tuple; empty without any."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def wants_ids(self) -> bool:
        """Whether token ids are part of the response: unless the client sent false."""
        return self.return_token_ids is not False

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk that holds the token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)


def _one_is_true(value: Any) -> Any:
    """Some clients (the proxy of Agent-lightning) send the number that text completions take; vLLM
    reads it so too.
    """
    return bool(value) if type(value) is int and value in (0, 1) else value


class ChatRequest(SampledRequest, TemplateOptions):
    """The body of ``POST /v1/chat/completions``."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: Annotated[bool | None, BeforeValidator(_one_is_true)] = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None
    thinking: Thinking | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.structured_outputs and not isinstance(self.response_format, TextFormat | None):
            raise ValueError(
                "structured_outputs and response_format say the same thing: send one of them"
            )
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise ValueError("tool_choice needs tools")
        twice = [name for name, number in Counter(self.tool_names).items() if number > 1]
        if twice:  # which of the two schemas binds its calls would be chance
            raise ValueError(f"tools has more than one of the name {twice[0]!r}")
        if unknown := sorted((self.chosen_tools or set()) - set(self.tool_names)):
            raise ValueError(f"tool_choice names {unknown[0]!r}, which is not among tools")
        return self

    @cached_property
    def normal_messages(self) -> list[dict[str, Any]]:
        """The messages in normal form (``rendering.messages.normal``)."""
        return [normal(message) for message in self.messages]

    @cached_property
    def normal_tools(self) -> list[dict[str, Any]]:
        """The tools in normal form; empty without any."""
        return [tool.normal() for tool in self.tools or []]

    @property
    def must_call(self) -> bool:
        """Whether the answer has to be a call."""
        if isinstance(self.tool_choice, AllowedTools):
            return self.tool_choice.allowed_tools.mode == "required"
        return self.tool_choice not in (None, "auto", "none")

    @property
    def chosen_tools(self) -> set[str] | None:
        """The names of the tools that tool_choice leaves; None leaves them all."""
        if isinstance(self.tool_choice, NamedTool):
            return {self.tool_choice.function.name}
        if isinstance(self.tool_choice, AllowedTools):
            return {tool.function.name for tool in self.tool_choice.allowed_tools.tools}
        return None

    @property
    def tool_names(self) -> list[str]:
        """The names of the functions that may be called."""
        return [tool.function.name for tool in self.tools or []]

    @property
    def custom_tools(self) -> set[str]:
        """The names of the tools whose input is one text."""
        return {tool.function.name for tool in self.tools or [] if tool.type == "custom"}

    @property
    def strict_tools(self) -> set[str]:
        """The names of the tools whose arguments must match their schema."""
        return {tool.function.name for tool in self.tools or [] if tool.function.strict}

    @property
    def wants_one_call(self) -> bool:
        """Whether an answer has one call at most."""
        return self.parallel_tool_calls is False

    @property
    def structure(self) -> str | None:
        """The structural tag that the answer must follow."""
        return self.structured_outputs.tag if self.structured_outputs else None

    @cached_property
    def json_schema(self) -> str | None:
        """The schema that the answer must satisfy; "{}" means any object."""
        if isinstance(self.response_format, JsonObjectFormat):
            return "{}"
        if isinstance(self.response_format, JsonSchemaFormat):
            return json.dumps(self.response_format.json_schema.schema_)
        return self.structured_outputs.json_schema if self.structured_outputs else None

    @property
    def most_tokens(self) -> int | None:
        """The shorter of the two that say it."""
        return min(
            (n for n in (self.max_tokens, self.max_completion_tokens) if n is not None),
            default=None,
        )

    @property
    def wants_logprobs(self) -> bool:
        """So are log-probabilities."""
        return self.logprobs or (self.logprobs is None and self.wants_ids)


class TextRequest(SampledRequest):
    """The body of ``POST /v1/completions``: prompts as text or as token ids, each of which is a
    call of its own.
    """

    prompt: (
        str
        | list[int]
        | Annotated[list[str | list[int]], Field(min_length=1, max_length=MAX_PROMPTS)]
    )
    logprobs: int | None = Field(None, ge=0, le=20)
    echo: bool | None = None

    @model_validator(mode="after")
    def _whole_answers(self) -> Self:
        if self.stream and (self.echo or len(self.prompts) > 1):
            raise ValueError("echo and several prompts need stream: false")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts; one without a list around it is the only one."""
        if isinstance(self.prompt, list) and self.prompt and not isinstance(self.prompt[0], int):
            return self.prompt
        # the validator left only these: types cannot tell ids from prompts
        return [cast(str | list[int], self.prompt)]

    def of(self, prompt: str | list[int]) -> Self:
        """The same request for one of its prompts."""
        return self.model_copy(update={"prompt": prompt})

    @property
    def the_prompt(self) -> str | list[int]:
        """The one prompt of a request that has one, without the list around it."""
        return self.prompts[0]

    @property
    def wants_logprobs(self) -> bool:
        """As in chat; here 0 asks for the sampled tokens' alone. With ``echo`` they are those of
        the prompt too.
        """
        return self.logprobs is not None or (self.wants_ids and not self.echo)

    @property
    def wanted_of_prompt(self) -> int | None:
        """How many alternatives of each prompt token the answer shows; None shows nothing of
        them.
        """
        shown = [
            n for n in (self.prompt_logprobs, self.logprobs if self.echo else None) if n is not None
        ]
        return max(shown, default=None)


@dataclass(frozen=True)
class Identity:
    """What a call goes by: the hash of its body, the id that its retries share, and the agent whose
    call it is.
    """

    body_sha256: str
    request_id: str | None = None
    agent: str | None = None
