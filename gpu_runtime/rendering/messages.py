"""Chat messages as clients send them, and the one normal form in which the gateway renders and
compares them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpu_runtime.rendering.calls.json_text import load
from gpu_runtime.rendering.calls.pieces import MAX_NAME
from gpu_runtime.rendering.custom_tools import arguments_of

SIGNATURE = "signature"  # of a normal message's thoughts; no template is given it
ENDS_OF_THOUGHTS = ("</think>", "</thinking>", "</reasoning>")


class Strict(BaseModel):
    """Unknown fields are refused; a null is an absent field, because clients echo the messages that
    they got.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return (
            {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
        )


class TextPart(Strict):
    type: Literal["text"]
    text: str


class RefusalPart(Strict):
    type: Literal["refusal"]
    refusal: str


class _Echoed(Strict):
    """Fields that clients add to an answer and send back with it; the model never sees them."""

    parsed: Any = None
    parsed_arguments: Any = None
    provider_specific_fields: Any = None


def arguments_of_call(value: Any) -> Any:
    """A call's arguments as an object, in whichever form a client sends them back: none are an
    empty one. Raises ValueError for what is no object.

    Text that begins as an object and is none stays as it is: an answer that max_tokens cut has such
    arguments. ``Conversation.recognise`` takes it back from where it came, and refuses any other.
    """
    if value is None or (isinstance(value, str) and value.strip() in ("", "null")):
        return {}
    try:
        found = load(value if isinstance(value, str) else json.dumps(value))
    except (ValueError, RecursionError):
        found = value if isinstance(value, str) else None
    if isinstance(found, dict) or (isinstance(value, str) and value.lstrip().startswith("{")):
        return found
    raise ValueError("a call's arguments are a JSON object, or its text")


Arguments = Annotated[dict[str, Any] | str, BeforeValidator(arguments_of_call)]


class FunctionCall(_Echoed):
    name: str = Field(min_length=1, max_length=MAX_NAME)
    arguments: Arguments = Field(default_factory=dict)


class ToolCall(_Echoed):
    """A call of a function, or of a custom tool, which is one."""

    id: str = Field(min_length=1, max_length=256)
    type: Literal["function", "custom"] = "function"
    function: FunctionCall
    index: int | None = None  # streaming clients echo it

    @model_validator(mode="before")
    @classmethod
    def _custom_is_a_function(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(custom := value.get("custom"), dict):
            return value
        function = {"name": custom.get("name"), "arguments": arguments_of(custom.get("input"))}
        return {name: kept for name, kept in value.items() if name != "custom"} | {
            "function": function
        }


class SystemMessage(Strict):
    role: Literal["system", "developer"]
    content: str | list[TextPart]
    name: str | None = None


class UserMessage(Strict):
    role: Literal["user"]
    content: str | list[TextPart]
    name: str | None = None


class ThinkingBlock(Strict):
    """Thoughts as LiteLLM and Anthropic's clients hold them; a signature that is ours
    (``journal.records``) names the answer that they came with."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class AssistantMessage(_Echoed):
    """``reasoning_content``, ``reasoning``, ``reasoning_details`` and ``thinking_blocks`` are one
    thing, the thoughts before the answer, under the names that clients have for it.
    """

    role: Literal["assistant"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] = ""
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] = []
    annotations: list[Any] = []  # of another server's answer: its text is whole without them
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] = []
    thinking_blocks: list[ThinkingBlock] = []

    @property
    def thoughts_field(self) -> str:
        """The name that the thoughts came under; empty without any."""
        names = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
        return next((name for name in names if getattr(self, name)), "") if self.thoughts else ""

    @property
    def thoughts(self) -> str:
        """The thoughts, under whichever name they came."""
        details = [
            str(detail.get("text") or detail.get("summary") or "")
            for detail in self.reasoning_details
        ]
        blocks = [block.thinking for block in self.thinking_blocks]
        return self.reasoning_content or self.reasoning or "\n".join(details) or "\n".join(blocks)

    @property
    def signature(self) -> str | None:
        """The signature of the thoughts."""
        return next((block.signature for block in self.thinking_blocks if block.signature), None)


class _CallOfResult(Strict):
    function_id: str


class ToolMessage(Strict):
    role: Literal["tool"]
    content: str | list[TextPart]
    tool_call_id: str = Field(min_length=1, max_length=256)
    name: str | None = None
    extra: _CallOfResult | None = None  # Qwen-Agent's, which says the id again

    @model_validator(mode="before")
    @classmethod
    def _id_is_the_calls(cls, value: Any) -> Any:
        """Qwen-Agent's raw API has the call's id as ``id``."""
        if (
            not isinstance(value, dict)
            or "id" not in value
            or value.get("tool_call_id") is not None
        ):
            return value
        return {
            ("tool_call_id" if name == "id" else name): kept
            for name, kept in value.items()
            if name != "tool_call_id"
        }


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


def normal(message: Message) -> dict[str, Any]:
    """The form that templates read: text as one string, arguments as an object, a developer as the
    system.
    """
    form: dict[str, Any] = {"role": "system" if message.role == "developer" else message.role}
    form["content"] = _text(message.content)
    if message.name is not None:
        form["name"] = message.name
    if isinstance(message, AssistantMessage):
        form["content"] = form["content"] or message.refusal or ""
        if message.thoughts:
            form["reasoning_content"] = message.thoughts
        if message.signature:
            form[SIGNATURE] = message.signature
        if message.tool_calls:
            form["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls
            ]
    if isinstance(message, ToolMessage):
        form["tool_call_id"] = message.tool_call_id
    return form


def as_sent(message: dict[str, Any]) -> dict[str, Any]:
    """A message that ``normal`` made, as a client sends it: ``normal`` of it is the same again,
    without a signature."""
    calls = [
        call
        | {"function": call["function"] | {"arguments": _as_text(call["function"]["arguments"])}}
        for call in message.get("tool_calls", [])
    ]
    kept = {name: value for name, value in message.items() if name != SIGNATURE}
    return kept | ({"tool_calls": calls} if calls else {})


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def normal_answer(message: dict[str, Any]) -> dict[str, Any]:
    """The normal form of an assistant message that this gateway sent, as the client will send it
    back.
    """
    return normal(AssistantMessage.model_validate(message))


def normal_tool(function: dict[str, Any]) -> dict[str, Any]:
    """The form of a tool that templates read: ``parameters`` is always a schema."""
    known = {
        name: function[name] for name in ("name", "description") if function.get(name) is not None
    }
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"type": "function", "function": known | {"parameters": schema}}


def chain(
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    variables: Mapping[str, Any] | None = None,
) -> list[str]:
    """``chain(...)[k]`` names the first k normal messages under ``tools`` and the template's
    ``variables``: equal names, equal conversations.

    An assistant's text is compared without thoughts and with each run of whitespace as one space,
    its tool calls without their ids, because frameworks strip, indent and renumber them; everything
    else is compared exactly.
    """
    names = [
        hashlib.sha256(
            canonical([list(tools), variables] if variables else list(tools))
        ).hexdigest()
    ]
    for message in messages:
        names.append(extended(names[-1], message))
    return names


def extended(name: str, message: dict[str, Any]) -> str:
    """The name of the conversation ``name`` with one more message."""
    return hashlib.sha256(name.encode() + canonical(compared(message))).hexdigest()


def compared(message: dict[str, Any]) -> dict[str, Any]:
    """What of a normal message makes it the same message; see ``chain``."""
    if message["role"] != "assistant":
        return message
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return {"role": "assistant", "content": plain(message["content"]), "tool_calls": calls}


def plain(content: str) -> str:
    """``content`` without thoughts, and with each run of whitespace as one space."""
    for mark in ENDS_OF_THOUGHTS:
        content = content.rpartition(mark)[2]
    return " ".join(content.split())


def canonical(value: Any) -> bytes:
    """The one text of a value of JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _text(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)
