"""Requests of Anthropic's Messages dialect, checked strictly, as the chat request they mean."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gpu_runtime.gateway.bodies import Places
from gpu_runtime.generation.engine_options import EngineOptions, TemplateOptions
from gpu_runtime.generation.parsing import checked
from gpu_runtime.generation.requests import (
    MAX_STOPS,
    ChatRequest,
    Effort,
    StopString,
    Thinking,
    ToolName,
)
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.calls.pieces import MAX_NAME
from gpu_runtime.rendering.messages import Strict, ThinkingBlock, arguments_of_call

# Of the options of a chat request.
OWN_NAMES = {
    "reasoning_effort": "output_config.effort",
    "response_format": "output_config.format",
    "tool_choice.function": "tool_choice",
}


class TextBlock(Strict):
    type: Literal["text"]
    text: str


class ToolReferenceBlock(Strict):
    """A tool that the client's own search has found: the request describes it among its tools."""

    type: Literal["tool_reference"]
    tool_name: str = Field(min_length=1, max_length=MAX_NAME)

    @property
    def text(self) -> str:
        """What the model reads of it."""
        return f"The tool {self.tool_name} is loaded."


class ToolUseBlock(Strict):
    type: Literal["tool_use"]
    id: str = Field(min_length=1, max_length=256)
    name: str = Field(min_length=1, max_length=MAX_NAME)
    input: Annotated[dict[str, Any], BeforeValidator(arguments_of_call)] = {}


class ToolResultBlock(Strict):
    type: Literal["tool_result"]
    tool_use_id: str = Field(min_length=1, max_length=256)
    content: str | list[Annotated[TextBlock | ToolReferenceBlock, Field(discriminator="type")]] = ""
    is_error: bool = False  # the model reads it in the content: templates have no field for it


def _readable(data: str) -> str:
    raise ValueError(
        "these thoughts are another server's and cannot be read here: leave the block out, or "
        "begin a new conversation"
    )


class RedactedThinkingBlock(Strict):
    type: Literal["redacted_thinking"]
    data: Annotated[str, AfterValidator(_readable)]


class UserMessage(Strict):
    role: Literal["user"]
    content: str | list[Annotated[TextBlock | ToolResultBlock, Field(discriminator="type")]]


class AssistantMessage(Strict):
    role: Literal["assistant"]
    content: (
        str
        | list[
            Annotated[
                TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock,
                Field(discriminator="type"),
            ]
        ]
    )


class SystemMessage(Strict):
    """Text of the system later in a conversation; ``rendering.system_text`` says how a template
    writes it."""

    role: Literal["system"]
    content: str | list[TextBlock]


class Tool(Strict):
    name: ToolName
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] = "custom"
    strict: bool | None = None


class ToolChoice(Strict):
    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool = False


class NamedToolChoice(Strict):
    type: Literal["tool"]
    name: str
    disable_parallel_tool_use: bool = False


class OutputFormat(Strict):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(Strict):
    effort: Effort | None = None
    format: OutputFormat | None = None


class CountRequest(TemplateOptions):
    """The body of ``POST /v1/messages/count_tokens``: what makes the prompt."""

    model: str
    messages: list[
        Annotated[UserMessage | AssistantMessage | SystemMessage, Field(discriminator="role")]
    ] = Field(min_length=1)
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: Annotated[ToolChoice | NamedToolChoice, Field(discriminator="type")] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None


class MessagesRequest(CountRequest, EngineOptions):
    """The body of ``POST /v1/messages``."""

    max_tokens: int = Field(ge=1)
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    stop_sequences: list[StopString] | None = Field(None, max_length=MAX_STOPS)
    stream: bool | None = None
    metadata: dict[str, str | None] | None = None
    # the package's own runner of tools asks for one; see _refuse_thread
    thread: dict[str, Any] | None = None


def chat_request(asked: CountRequest, places: Places) -> ChatRequest:
    """The same question in chat terms, with the ``places`` of its parts. Raises BadRequest for what
    does not fit together.
    """
    if isinstance(asked, MessagesRequest):
        _refuse_thread(asked)
        _refuse_prefill(asked)
    _options_place(asked, places)
    messages = _system(asked)
    if messages:
        places.add("messages.0", "system", is_whole=True)
    for number, message in enumerate(asked.messages):
        messages += _messages(message, f"messages.{number}", len(messages), places)
    chat: dict[str, Any] = {
        "model": asked.model,
        "messages": messages,
        "tools": [_tool(tool) for tool in asked.tools or []],
        "chat_template_kwargs": asked.chat_template_kwargs,
        "thinking": asked.thinking,
        **_output(asked.output_config),
    }
    if isinstance(asked, MessagesRequest):
        chat["stop"] = asked.stop_sequences or None
        for name in ("max_tokens", "temperature", "top_p", "stream"):
            chat[name] = getattr(asked, name)
        metadata = asked.metadata or {}
        chat["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        chat |= asked.copied()
    if isinstance(asked.tool_choice, NamedToolChoice):
        chat["tool_choice"] = {"type": "function", "function": {"name": asked.tool_choice.name}}
    elif asked.tool_choice is not None:
        chat["tool_choice"] = (
            "required" if asked.tool_choice.type == "any" else asked.tool_choice.type
        )
    if asked.tool_choice is not None and asked.tool_choice.disable_parallel_tool_use:
        chat["parallel_tool_calls"] = False
    return checked(chat, ChatRequest)


def _options_place(asked: CountRequest, places: Places) -> None:
    for name, own in OWN_NAMES.items():
        places.add(name, own)
    for number, _ in enumerate(asked.tools or []):
        own = places.own(f"tools.{number}")
        places.add(f"tools.{number}.function", own)
        places.add(f"tools.{number}.function.parameters", f"{own}.input_schema")


def _output(config: OutputConfig | None) -> dict[str, Any]:
    if config is None:
        return {}
    wanted = config.format
    schema = {"name": "output", "schema": wanted.schema_} if wanted else None
    form = {"type": "json_schema", "json_schema": schema} if schema else None
    return {"reasoning_effort": config.effort, "response_format": form}


def _refuse_thread(asked: MessagesRequest) -> None:
    """No conversation is held between calls. The code in the details makes clients send the whole
    one instead.
    """
    if asked.thread is not None:
        raise BadRequest(
            "the option thread is not supported",
            hint="Send the whole conversation with each request.",
            param="thread",
            openai_code="unsupported_parameter",
            details={"error_code": "thread_unsupported_request"},
        )


def _refuse_prefill(asked: MessagesRequest) -> None:
    """In this dialect an answer goes on with an assistant's message that is the last, and no
    prompt here ends inside of one.
    """
    if isinstance(asked.messages[-1], AssistantMessage):
        at = f"messages.{len(asked.messages) - 1}"
        raise BadRequest(
            f"{at}: this model does not support assistant message prefill",
            hint="End the conversation with a user message.",
            param=at,
        )


def _system(asked: CountRequest) -> list[dict[str, Any]]:
    return [] if asked.system is None else [{"role": "system", "content": _text(asked.system)}]


def _messages(
    message: UserMessage | AssistantMessage | SystemMessage, own: str, first: int, places: Places
) -> list[dict[str, Any]]:
    """A turn with the results of tools is several messages in chat: the results, then what the user
    adds. ``own`` is the turn's path, and ``first`` the number of the first of them.
    """
    at = f"messages.{first}"
    places.add(at, own)
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    text = _text([block for block in message.content if isinstance(block, TextBlock)])
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": text}]
    numbered = [(f"{own}.content.{number}", block) for number, block in enumerate(message.content)]
    if isinstance(message, AssistantMessage):
        made = [place for place, block in numbered if isinstance(block, ToolUseBlock)]
        for number, place in enumerate(made):
            places.add(f"{at}.tool_calls.{number}", place)
            places.add(f"{at}.tool_calls.{number}.function", place)
            places.add(f"{at}.tool_calls.{number}.function.arguments", f"{place}.input")
        for place in [place for place, block in numbered if isinstance(block, ThinkingBlock)][:1]:
            places.add(f"{at}.reasoning_content", place, is_whole=True)
        calls = [_call(block) for block in message.content if isinstance(block, ToolUseBlock)]
        thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
        answer: dict[str, Any] = {"role": "assistant", "content": text}
        given = {"thinking_blocks": [block.model_dump() for block in thoughts], "tool_calls": calls}
        return [answer | {name: value for name, value in given.items() if value}]
    results = [
        {"role": "tool", "tool_call_id": block.tool_use_id, "content": _text(block.content)}
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    returned = [place for place, block in numbered if isinstance(block, ToolResultBlock)]
    for number, place in enumerate(returned, first):
        places.add(f"messages.{number}", place)
        places.add(f"messages.{number}.tool_call_id", f"{place}.tool_use_id")
    places.add(f"messages.{first + len(results)}", own)
    says_more = len(results) < len(message.content) or not results
    return [*results, *([{"role": "user", "content": text}] if says_more else [])]


def _text(content: str | Sequence[TextBlock | ToolReferenceBlock]) -> str:
    return content if isinstance(content, str) else "\n".join(block.text for block in content)


def _call(block: ToolUseBlock) -> dict[str, Any]:
    return {
        "id": block.id,
        "function": {"name": block.name, "arguments": block.input},
    }


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    function |= {"parameters": tool.input_schema, "strict": tool.strict}
    return {
        "type": "function",
        "function": {name: value for name, value in function.items() if value is not None},
    }
