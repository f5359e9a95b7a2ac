"""Chat messages as clients send them, and the one normal form in which the gateway renders and compares them."""

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Strict(BaseModel):
    """Unknown fields are refused; a null is an absent field, because clients echo what they were answered."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


class TextPart(Strict):
    type: Literal["text"]
    text: str


class RefusalPart(Strict):
    type: Literal["refusal"]
    refusal: str


class _Echoed(Strict):
    """What clients make of an answer for themselves, and send back with it: it says nothing to the model."""

    parsed: Any = None
    parsed_arguments: Any = None
    provider_specific_fields: Any = None


class FunctionCall(_Echoed):
    name: str = Field(min_length=1, max_length=256)
    arguments: str


class ToolCall(_Echoed):
    id: str = Field(min_length=1, max_length=256)
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None  # streaming clients echo it


class SystemMessage(Strict):
    role: Literal["system", "developer"]
    content: str | list[TextPart]
    name: str | None = None


class UserMessage(Strict):
    role: Literal["user"]
    content: str | list[TextPart]
    name: str | None = None


class AssistantMessage(_Echoed):
    role: Literal["assistant"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] = ""
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] = []
    annotations: list[Any] = Field([], max_length=0)


class ToolMessage(Strict):
    role: Literal["tool"]
    content: str | list[TextPart]
    tool_call_id: str = Field(min_length=1, max_length=256)
    name: str | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def normal(message: Message) -> dict[str, Any]:
    """The form that templates read: text as one string, arguments as an object, a developer as the system."""
    form: dict[str, Any] = {"role": "system" if message.role == "developer" else message.role}
    form["content"] = _text(message.content)
    if message.name is not None:
        form["name"] = message.name
    if isinstance(message, AssistantMessage):
        form["content"] = form["content"] or message.refusal or ""
        if message.tool_calls:
            form["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": _arguments(call.function.arguments)},
                }
                for call in message.tool_calls
            ]
    if isinstance(message, ToolMessage):
        form["tool_call_id"] = message.tool_call_id
    return form


def normal_answer(message: dict[str, Any]) -> dict[str, Any]:
    """The normal form of an assistant message that this gateway answered, as it will come back."""
    return normal(AssistantMessage.model_validate(message))


def chain(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[str]:
    """``chain(...)[k]`` names the first k normal messages under ``tools``: equal names, equal conversations.

    An assistant's text is compared without the whitespace around it and its tool calls without their ids, because
    frameworks trim the one and renumber the other; everything else is compared exactly.
    """
    names = [hashlib.sha256(_canonical(list(tools))).hexdigest()]
    for message in messages:
        names.append(extended(names[-1], message))
    return names


def extended(name: str, message: dict[str, Any]) -> str:
    """The name of the conversation ``name`` with one more message."""
    return hashlib.sha256(name.encode() + _canonical(_compared(message))).hexdigest()


def _compared(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] != "assistant":
        return message
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return {"role": "assistant", "content": message["content"].strip(), "tool_calls": calls}


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _text(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def _arguments(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
