"""Requests of the Responses dialect: the subset that agents use, checked strictly, as the chat request they mean."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from gpu_runtime.gateway.completion_requests import TIERS, ChatRequest, checked
from gpu_runtime.gateway.messages import Strict

# Options that this gateway does not have, with the values at which they say nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "background": (False,),
    "include": ([],),
    "reasoning": ({},),
    "service_tier": TIERS,
    "store": (False,),
    "stream_options": ({}, {"include_obfuscation": False}),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}


class _TextPart(Strict):
    """What the answer's parts carry beside their text says nothing here and comes back empty."""

    type: Literal["input_text", "output_text"]
    text: str
    annotations: list[Any] = Field([], max_length=0)
    logprobs: list[Any] = Field([], max_length=0)


class _RefusalPart(Strict):
    type: Literal["refusal"]
    refusal: str


_Part = Annotated[_TextPart | _RefusalPart, Field(discriminator="type")]


class _Item(Strict):
    """``id`` and ``status`` come back from the client as they were answered, and say nothing."""

    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class MessageItem(_Item):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    phase: str | None = None


class FunctionCallItem(_Item):
    type: Literal["function_call"]
    call_id: str = Field(min_length=1, max_length=256)
    name: str = Field(min_length=1, max_length=256)
    arguments: str


class FunctionCallOutputItem(_Item):
    type: Literal["function_call_output"]
    call_id: str = Field(min_length=1, max_length=256)
    output: str | list[_Part]


def _kind(value: Any) -> Any:
    return (value.get("type") or "message") if isinstance(value, dict) else getattr(value, "type", None)


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionCallOutputItem, Tag("function_call_output")],
    Discriminator(_kind),
]


class FunctionTool(Strict):
    type: Literal["function"]
    name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedTool(Strict):
    type: Literal["function"]
    name: str


class _TextFormat(Strict):
    type: Literal["text", "json_object"]


class _SchemaFormat(Strict):
    type: Literal["json_schema"]
    name: str = Field(min_length=1, max_length=64)
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextOptions(Strict):
    format: Annotated[_TextFormat | _SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Literal["medium"] | None = None


class ResponsesRequest(BaseModel):
    """The body of ``POST /v1/responses``. Nothing is stored: each request carries its whole conversation."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    tools: list[FunctionTool] | None = Field(None, max_length=128)
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    max_output_tokens: int | None = Field(None, ge=1)
    text: TextOptions | None = None
    stream: bool | None = None
    metadata: dict[str, str] | None = None
    # Labels of the client's own that change no answer.
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None


def chat_request(asked: ResponsesRequest) -> ChatRequest:
    """The same question in chat terms. Raises BadRequest for what does not fit together."""
    chat: dict[str, Any] = {
        "model": asked.model,
        "messages": _messages(asked),
        "max_completion_tokens": asked.max_output_tokens,
        "tools": [_tool(tool) for tool in asked.tools or []],
        "response_format": _response_format(asked.text),
    }
    for name in ("parallel_tool_calls", "temperature", "top_p", "stream", "metadata", "user"):
        chat[name] = getattr(asked, name)
    choice = asked.tool_choice
    named = {"type": "function", "function": {"name": choice.name}} if isinstance(choice, NamedTool) else None
    chat["tool_choice"] = named or choice
    return checked(chat, ChatRequest)


def _messages(asked: ResponsesRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if asked.instructions is not None:
        messages.append({"role": "system", "content": asked.instructions})
    if isinstance(asked.input, str):
        return [*messages, {"role": "user", "content": asked.input}]
    for item in asked.input:
        if isinstance(item, MessageItem):
            messages.append({"role": item.role, "content": _content(item.content)})
        elif isinstance(item, FunctionCallOutputItem):
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output)})
        else:
            # The text and the calls of one answer are items in a row here, and one message in chat.
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            function = {"name": item.name, "arguments": item.arguments}
            messages[-1].setdefault("tool_calls", []).append({"id": item.call_id, "function": function})
    return messages


def _content(content: str | list[_TextPart | _RefusalPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, _TextPart) else part.refusal for part in content)


def _tool(tool: FunctionTool) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(exclude={"type"}, exclude_none=True)}


def _response_format(text: TextOptions | None) -> dict[str, Any] | None:
    if text is None or text.format is None:
        return None
    if isinstance(text.format, _TextFormat):
        return {"type": text.format.type}
    schema = text.format.model_dump(by_alias=True, exclude={"type"}, exclude_none=True)
    return {"type": "json_schema", "json_schema": schema}
