"""Requests of the Responses dialect: the subset that agents use, checked strictly, as the chat
request they mean, with what they name of earlier responses of their episode.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpu_runtime.gateway.bodies import Places
from gpu_runtime.gateway.openai.responses_items import (
    InputItem,
    ItemReference,
    SearchOutputItem,
    item_of,
    messages_of,
    output_items,
)
from gpu_runtime.gateway.openai.responses_tools import (
    SEARCH,
    SHELL,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    Tool,
    ToolSearchTool,
    functions_of,
    names_apart,
    tools_place,
)
from gpu_runtime.generation.engine_options import EngineOptions, TemplateOptions
from gpu_runtime.generation.parsing import checked
from gpu_runtime.generation.requests import ChatRequest, Effort
from gpu_runtime.journal.records import CALL, RESPONSE, CallRecord, canonical_call_id
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.messages import Strict, as_sent

INSTRUCTIONS = "instructions"  # noted with a call whose first message they are
LOGPROBS = "message.output_text.logprobs"
# Of the options of a chat request.
OWN_NAMES = {
    "reasoning_effort": "reasoning.effort",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "tool_choice.function": "tool_choice",
    "tool_choice.custom": "tool_choice",
}
# What clients ask for in ``include``. Log-probabilities are included; the others are of items that
# no answer has here.
Include = Literal[
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
]


class EarlierResponses:
    """The completed calls of one episode; those of another one are not to be seen."""

    def __init__(self, calls: Sequence[CallRecord] = ()) -> None:
        self._calls = {call.id: call for call in calls if call.status == "completed"}

    def conversation(self, response_id: str) -> list[dict[str, Any]]:
        """The chat messages up to and with the answer of ``response_id``, without instructions.

        Raises BadRequest for one that is not of this episode.
        """
        call = (
            self._calls.get(canonical_call_id(response_id))
            if response_id.startswith(RESPONSE)
            else None
        )
        if call is None:
            raise BadRequest(
                f"no response of this episode has the id {response_id!r}",
                hint="An episode's key knows the responses of its own episode alone.",
                param="previous_response_id",
                openai_code="previous_response_not_found",
            )
        messages = [*self._messages(call), call.completions[0].message]
        return messages[1:] if call.options.get(INSTRUCTIONS) else messages

    def resolved(self, item: InputItem) -> InputItem:
        """``item``, or what it refers to. Raises BadRequest for a reference to nothing."""
        if not isinstance(item, ItemReference):
            return item
        call = self._calls.get(CALL + item.id.partition("_")[2].partition("_")[0])
        items = output_items(call) if call else []
        found = next((each for each in items if each["id"] == item.id), None)
        if found is None:
            raise BadRequest(
                f"item_reference: no item of this episode has the id {item.id!r}",
                hint="Send the item itself, or begin the conversation in this episode.",
                param="input",
            )
        return item_of(found)

    def _messages(self, call: CallRecord) -> list[dict[str, Any]]:
        """All messages that ``call`` was asked with: its own follow its parent's and the parent's
        answer.
        """
        parts = [[as_sent(message) for message in call.messages]]
        while call.parent is not None:
            answer = call.parent.choice
            call = self._calls[call.parent.call_id]
            parts.append([*map(as_sent, call.messages), call.completions[answer].message])
        return [message for part in reversed(parts) for message in part]


class NamedTool(Strict):
    """A tool that has to be called, or may be: by its name, or by its type where that is its
    name."""

    type: Literal["function", "custom"]
    name: str

    @model_validator(mode="before")
    @classmethod
    def _type_may_be_the_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type") in (SHELL, SEARCH):
            return {"type": "function", "name": value["type"]}
        return value


class AllowedTools(Strict):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class Reasoning(Strict):
    """``summary`` asks for a form of thoughts; they are returned whole."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


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
    verbosity: Literal["low", "medium", "high"] | None = None  # a label


class CountRequest(TemplateOptions):
    """The body of ``POST /v1/responses/input_tokens``: what makes the prompt. Earlier responses are
    those of the episode, which its journal keeps.
    """

    model: str
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    previous_response_id: str | None = Field(None, min_length=1, max_length=256)
    # nothing is cut: what is too long is refused
    truncation: Literal["auto", "disabled"] | None = None

    @property
    def names_earlier(self) -> bool:
        """Whether it names something of an earlier response."""
        items = [] if isinstance(self.input, str) else self.input
        return self.previous_response_id is not None or any(
            isinstance(item, ItemReference) for item in items
        )

    @property
    def namespaced(self) -> dict[str, tuple[str, str]]:
        """Both names of each function of a namespace, of those that a search has found too."""
        items = [] if isinstance(self.input, str) else self.input
        found = [
            tool for item in items if isinstance(item, SearchOutputItem) for tool in item.tools
        ]
        return names_apart([*(self.tools or []), *found])

    @property
    def client_tools(self) -> list[str]:
        """The names of those tools whose calls are items of their own."""
        kinds = (LocalShellTool, ToolSearchTool)
        return [tool.type for tool in self.tools or [] if isinstance(tool, kinds)]

    @property
    def sends_calls_whole(self) -> bool:
        """Whether a call may be of a form that is made of its whole arguments."""
        is_custom = any(isinstance(tool, CustomTool) for tool in self.functions.values())
        return is_custom or bool(self.client_tools)

    @cached_property
    def functions(self) -> dict[str, FunctionTool | CustomTool]:
        """The tools that the model is shown, by the names that it is shown. Raises BadRequest for
        two of one name."""
        return functions_of(self.tools or [])


class ResponsesRequest(CountRequest, EngineOptions):
    """The body of ``POST /v1/responses``."""

    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    max_output_tokens: int | None = Field(None, ge=1)
    include: list[Include] | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    store: bool | None = None  # every call is kept, whatever is asked
    max_tool_calls: int | None = Field(None, ge=1)  # of built-in tools, which there are none of
    stream: bool | None = None
    metadata: dict[str, str] | None = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities are part of a message's text."""
        return bool(self.top_logprobs) or LOGPROBS in (self.include or [])


def chat_request(asked: CountRequest, earlier: EarlierResponses, places: Places) -> ChatRequest:
    """The same question in chat terms, with the ``places`` of its parts. Raises BadRequest for what
    does not fit together, and for unknown ids.
    """
    functions = asked.functions
    for name, own in OWN_NAMES.items():
        places.add(name, own)
    tools_place(asked.tools or [], places)
    chat: dict[str, Any] = {
        "model": asked.model,
        "messages": _messages(asked, earlier, places),
        "reasoning_effort": asked.reasoning.effort if asked.reasoning else None,
        "tools": [_tool(name, tool) for name, tool in functions.items()],
        "parallel_tool_calls": asked.parallel_tool_calls,
        "response_format": _response_format(asked.text),
        "chat_template_kwargs": asked.chat_template_kwargs,
    }
    if isinstance(asked, ResponsesRequest):
        chat["logprobs"] = True if asked.wants_logprobs else None
        chat["max_completion_tokens"] = asked.max_output_tokens
        for name in ("top_logprobs", "temperature", "top_p", "stream", "metadata"):
            chat[name] = getattr(asked, name)
        chat |= asked.copied()
    choice = asked.tool_choice
    if isinstance(choice, NamedTool):
        chat["tool_choice"] = _named(choice)
    elif isinstance(choice, AllowedTools):
        allowed = {"mode": choice.mode, "tools": [_named(tool) for tool in choice.tools]}
        chat["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    else:
        chat["tool_choice"] = choice
    return checked(chat, ChatRequest)


def _messages(
    asked: CountRequest, earlier: EarlierResponses, places: Places
) -> list[dict[str, Any]]:
    """Instructions are those of this request alone, as in the dialect: an earlier response's are
    not taken over.
    """
    messages: list[dict[str, Any]] = []
    if asked.instructions is not None:
        places.add("messages.0", "instructions", is_whole=True)
        messages.append({"role": "system", "content": asked.instructions})
    if asked.previous_response_id is not None:
        for message in earlier.conversation(asked.previous_response_id):
            places.add(f"messages.{len(messages)}", "previous_response_id", is_whole=True)
            messages.append(message)
    if isinstance(asked.input, str):
        places.add(f"messages.{len(messages)}", "input", is_whole=True)
        return [*messages, {"role": "user", "content": asked.input}]
    return messages_of([earlier.resolved(item) for item in asked.input], messages, places)


def _named(tool: NamedTool) -> dict[str, Any]:
    return {"type": tool.type, tool.type: {"name": tool.name}}


def _tool(name: str, tool: FunctionTool | CustomTool) -> dict[str, Any]:
    return {
        "type": tool.type,
        tool.type: tool.model_dump(exclude={"type"}, exclude_none=True) | {"name": name},
    }


def _response_format(text: TextOptions | None) -> dict[str, Any] | None:
    if text is None or text.format is None:
        return None
    if isinstance(text.format, _TextFormat):
        return {"type": text.format.type}
    schema = text.format.model_dump(by_alias=True, exclude={"type"}, exclude_none=True)
    return {"type": "json_schema", "json_schema": schema}
