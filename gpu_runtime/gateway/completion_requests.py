"""Requests for completions, checked strictly: what is not supported is named, never ignored."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpu_runtime.gateway.errors import BadRequest
from gpu_runtime.gateway.messages import Message

TIERS = ("auto", "default", "fast", "flex", "priority", "scale")  # of price and speed: all are the same here
# Options of the dialect that this gateway does not have, with the values at which they say nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "min_p": (0,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "service_tier": TIERS,
    "store": (False, True),  # every call is kept, whatever is asked
    "suffix": ("",),
    "top_k": (0, -1),
    "verbosity": ("medium",),
}
MAX_STOPS = 16


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Function(_Options):
    name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(_Options):
    type: Literal["function"]
    function: Function

    def normal(self) -> dict[str, Any]:
        """The form that templates read: ``parameters`` is always a schema."""
        function = {"name": self.function.name}
        if self.function.description is not None:
            function["description"] = self.function.description
        return {
            "type": "function",
            "function": function | {"parameters": self.function.parameters or {"type": "object", "properties": {}}},
        }


class NamedFunction(_Options):
    name: str


class NamedTool(_Options):
    type: Literal["function"]
    function: NamedFunction


class StreamOptions(_Options):
    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class JsonSchema(_Options):
    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")
    strict: bool | None = None


class TextFormat(_Options):
    type: Literal["text"]


class JsonObjectFormat(_Options):
    type: Literal["json_object"]


class JsonSchemaFormat(_Options):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]
StopString = Annotated[str, Field(min_length=1, max_length=256)]


class SampledRequest(_Options):
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
    # Labels of the client's own that change no answer.
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None

    @model_validator(mode="after")
    def _stream_fits(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true")
        return self

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def wants_ids(self) -> bool:
        """Token ids are part of an answer unless the client says no."""
        return self.return_token_ids is not False

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk that says what was used."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(SampledRequest):
    """The body of ``POST /v1/chat/completions``."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: list[Tool] | None = Field(None, max_length=128)
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise ValueError("tool_choice needs tools")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in self.tool_names:
            raise ValueError(f"tool_choice names {self.tool_choice.function.name!r}, which is not among tools")
        return self

    @property
    def tool_names(self) -> list[str]:
        """The names of the functions that may be called."""
        return [tool.function.name for tool in self.tools or []]

    @property
    def strict_tools(self) -> set[str]:
        """The names of those that are called as their schema says, or not at all."""
        return {tool.function.name for tool in self.tools or [] if tool.function.strict}

    @property
    def json_schema(self) -> str | None:
        """The schema that the answer must satisfy; "{}" means any object."""
        if isinstance(self.response_format, JsonObjectFormat):
            return "{}"
        if isinstance(self.response_format, JsonSchemaFormat):
            return json.dumps(self.response_format.json_schema.schema_)
        return None

    @property
    def wants_logprobs(self) -> bool:
        """So are log-probabilities."""
        return self.logprobs or (self.logprobs is None and self.wants_ids)


class TextRequest(SampledRequest):
    """The body of ``POST /v1/completions``: one prompt, as text or as token ids."""

    prompt: str | list[int] | Annotated[list[str | list[int]], Field(min_length=1, max_length=1)]
    logprobs: int | None = Field(None, ge=0, le=20)

    @property
    def the_prompt(self) -> str | list[int]:
        """The one prompt, without the list around it."""
        if isinstance(self.prompt, list) and self.prompt and not isinstance(self.prompt[0], int):
            return self.prompt[0]
        return cast(str | list[int], self.prompt)  # what is left: no type tells a list of ids from a list of prompts

    @property
    def wants_logprobs(self) -> bool:
        """As in chat; here 0 asks for the sampled tokens' alone."""
        return self.logprobs is not None or self.wants_ids


R = TypeVar("R", bound=BaseModel)


def read(body: bytes, kind: type[R], neutral_values: Mapping[str, tuple[Any, ...]] = NEUTRAL) -> R:
    """The request in ``body``. Raises BadRequest, naming what is wrong and where."""
    value = _json(body)
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    for name, neutral in neutral_values.items():
        if name in value and value.pop(name) not in (None, *neutral):
            raise BadRequest(f"the option {name} is not supported", param=name, openai_code="unsupported_parameter")
    return checked(value, kind)


def checked(value: dict[str, Any], kind: type[R]) -> R:
    """The request that ``value`` is; a null is an absent option. Raises BadRequest."""
    try:
        return kind.model_validate({name: option for name, option in value.items() if option is not None})
    except ValidationError as error:
        raise _named(error, value) from None


def _json(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_constant)
        if b"\\u" in body:  # an escape can make half a surrogate pair, which is no text
            json.dumps(value, ensure_ascii=False).encode()
        elif isinstance(value, dict) and "tools" in value:
            json.dumps(value["tools"])  # what can be read can be nested too deeply to be written
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {str(error)[:200]}") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _named(error: ValidationError, body: dict[str, Any]) -> BadRequest:
    # A union reports each of its members. The one that was meant is the one whose type fits; then the deepest.
    errors = error.errors(include_url=False, include_input=False)
    best = max(errors, key=lambda entry: (not entry["type"].endswith("_type"), len(entry["loc"])))
    place = _path(best["loc"], body)
    if best["type"] == "extra_forbidden":
        return BadRequest(f"the option {place} is not supported", param=place, openai_code="unsupported_parameter")
    message = best["msg"].removeprefix("Value error, ")
    return BadRequest(f"{place}: {message}" if place else message, param=place or None)


def _path(loc: tuple[int | str, ...], value: Any) -> str:
    """``loc`` without the names of union members, which a client has never heard of."""
    path = []
    for index, part in enumerate(loc):
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if inside:
            value = value[part]
        if inside or (isinstance(value, dict) and index == len(loc) - 1 and isinstance(part, str) and "[" not in part):
            path.append(str(part))
    return ".".join(path)
