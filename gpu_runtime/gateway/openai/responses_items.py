"""The items of a Responses conversation: messages, calls and their outputs, thoughts, references to
earlier ones.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter

from gpu_runtime.gateway.bodies import Places
from gpu_runtime.gateway.openai.responses_tools import (
    CLIENT_TOOLS,
    NAMESPACES,
    FunctionTool,
    NamespaceTool,
    SearchCallItem,
    SearchItem,
    ShellCallItem,
    ShellOutputItem,
    client_item,
    flat_name,
    functions_of,
    split_name,
)
from gpu_runtime.journal.records import MESSAGE, CallRecord, with_prefix
from gpu_runtime.rendering.custom_tools import arguments_of, input_of
from gpu_runtime.rendering.messages import Arguments, Strict


class _TextPart(Strict):
    """Text of any role, with what an answer's part has beside it."""

    type: Literal["input_text", "output_text"]
    text: str
    annotations: list[Any] = []  # of another server's answer: its text is whole without them
    logprobs: list[Any] = []


class _RefusalPart(Strict):
    type: Literal["refusal"]
    refusal: str


_Part = Annotated[_TextPart | _RefusalPart, Field(discriminator="type")]


class _Item(Strict):
    """``id`` and ``status`` are those of the answer that the client sends back; they are
    ignored.
    """

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
    namespace: str | None = Field(None, min_length=1, max_length=256)
    arguments: Arguments = Field(default_factory=dict)


class CustomCallItem(_Item):
    type: Literal["custom_tool_call"]
    call_id: str = Field(min_length=1, max_length=256)
    name: str = Field(min_length=1, max_length=256)
    namespace: str | None = Field(None, min_length=1, max_length=256)
    input: str


class FunctionCallOutputItem(_Item):
    """Its names are those of its call."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str = Field(min_length=1, max_length=256)
    name: str | None = None
    namespace: str | None = None
    output: str | list[_Part]


class SearchOutputItem(SearchItem):
    """The tools that a client's search has found. They may be called from then on."""

    type: Literal["tool_search_output"]
    tools: list[Annotated[FunctionTool | NamespaceTool, Field(discriminator="type")]]

    @property
    def output(self) -> str:
        """What the model reads of it: each tool on a line."""
        found = functions_of(self.tools).items()
        kept = {"description", "parameters"}
        told = [{"name": n} | t.model_dump(include=kept, exclude_none=True) for n, t in found]
        return "\n".join(map(json.dumps, told)) or "No tool was found."


class _ReasoningText(Strict):
    type: Literal["reasoning_text", "summary_text"]
    text: str


def _readable(encrypted: str | None) -> str | None:
    if encrypted:
        raise ValueError(
            "these thoughts are another server's and cannot be read here: leave the item out, or "
            "begin a new conversation"
        )
    return encrypted


class ReasoningItem(_Item):
    """Thoughts that came with the answer after them. ``encrypted_content`` is another server's, and
    cannot be read.
    """

    type: Literal["reasoning"]
    summary: list[_ReasoningText] = []
    content: list[_ReasoningText] = []
    encrypted_content: Annotated[str | None, AfterValidator(_readable)] = None


class ItemReference(Strict):
    """An item of an earlier response of the episode, by its id."""

    type: Literal["item_reference"] = "item_reference"
    id: str = Field(min_length=1, max_length=256)


def _kind(value: Any) -> Any:
    if not isinstance(value, dict):
        return getattr(value, "type", None)
    # A reference may come without its type, as an id alone.
    return value.get("type") or ("item_reference" if value.keys() == {"id"} else "message")


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionCallOutputItem, Tag("function_call_output")]
    | Annotated[FunctionCallOutputItem, Tag("custom_tool_call_output")]
    | Annotated[CustomCallItem, Tag("custom_tool_call")]
    | Annotated[ShellCallItem, Tag("local_shell_call")]
    | Annotated[ShellOutputItem, Tag("local_shell_call_output")]
    | Annotated[SearchCallItem, Tag("tool_search_call")]
    | Annotated[SearchOutputItem, Tag("tool_search_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[ItemReference, Tag("item_reference")],
    Discriminator(_kind),
]


_ITEM: TypeAdapter[InputItem] = TypeAdapter(InputItem)


class _Messages:
    """Chat messages as they are made of items, and the item of each."""

    def __init__(self, before: Sequence[dict[str, Any]], places: Places) -> None:
        self.made, self._places = list(before), places
        self.thoughts: dict[str, Any] = {}  # of the answer that comes next
        self._thoughts_own = ""

    def think(self, own: str, text: str) -> None:
        self.thoughts, self._thoughts_own = {"reasoning_content": text}, own

    def add(self, own: str, message: dict[str, Any]) -> None:
        at = f"messages.{len(self.made)}"
        self._places.add(at, own)
        self._places.add(f"{at}.tool_call_id", f"{own}.call_id")
        if message["role"] == "assistant" and self.thoughts:
            self._places.add(f"{at}.reasoning_content", self._thoughts_own, is_whole=True)
            message, self.thoughts = message | self.thoughts, {}
        self.made.append(message)

    def end_thoughts(self) -> None:
        """Thoughts that no text and no call follows are an answer."""
        if self.thoughts:
            self.add(self._thoughts_own, {"role": "assistant", "content": ""})

    def call(self, own: str, call: dict[str, Any]) -> None:
        """The text and the calls of one answer are items in a row, and one message in chat."""
        if self.thoughts or not self.made or self.made[-1]["role"] != "assistant":
            self.add(own, {"role": "assistant", "content": ""})
        calls = self.made[-1].setdefault("tool_calls", [])
        at = f"messages.{len(self.made) - 1}.tool_calls.{len(calls)}"
        self._places.add(at, own)
        self._places.add(f"{at}.function", own)
        calls.append(call)


def messages_of(
    items: Sequence[InputItem], before: Sequence[dict[str, Any]], places: Places
) -> list[dict[str, Any]]:
    """The chat messages ``before`` and those of ``items``, whose references have been replaced by
    what they name; ``places`` gets the item of each.
    """
    messages = _Messages(before, places)
    for number, item in enumerate(items):
        own = f"input.{number}"
        if not _goes_on_answer(item):
            messages.end_thoughts()
        if isinstance(item, ReasoningItem):
            messages.think(own, "\n".join(part.text for part in item.content or item.summary))
        elif isinstance(item, MessageItem):
            messages.add(own, {"role": item.role, "content": _content(item.content)})
        elif isinstance(item, FunctionCallOutputItem | ShellOutputItem | SearchOutputItem):
            content = _content(item.output)
            messages.add(own, {"role": "tool", "tool_call_id": item.call_id, "content": content})
        elif not isinstance(item, ItemReference):
            messages.call(own, {"id": item.call_id, "function": _function(item)})
    messages.end_thoughts()
    return messages.made


def _goes_on_answer(item: InputItem) -> bool:
    if isinstance(item, MessageItem):
        return item.role == "assistant"
    return isinstance(item, FunctionCallItem | CustomCallItem | ShellCallItem | SearchCallItem)


def _function(
    item: FunctionCallItem | CustomCallItem | ShellCallItem | SearchCallItem,
) -> dict[str, Any]:
    if isinstance(item, ShellCallItem | SearchCallItem):
        return item.function
    arguments = item.arguments if isinstance(item, FunctionCallItem) else arguments_of(item.input)
    return {"name": flat_name(item.namespace, item.name), "arguments": arguments}


def _content(content: str | list[_TextPart | _RefusalPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, _TextPart) else part.refusal for part in content)


def item_of(value: dict[str, Any]) -> InputItem:
    """An output item as the input item that it becomes when it is sent back."""
    return _ITEM.validate_python(value)


def output_items(record: CallRecord) -> list[dict[str, Any]]:
    """The items of a recorded answer, each where there is any of it: thoughts, text, calls."""
    message = record.completions[0].message
    calls = message.get("tool_calls", [])
    custom = {
        tool["function"]["name"]
        for tool in record.options.get("tools", [])
        if tool["type"] == "custom"
    }
    apart, own = record.options.get(NAMESPACES, {}), record.options.get(CLIENT_TOOLS, ())

    def item(index: int, call: dict[str, Any]) -> dict[str, Any]:
        if (name := call["function"]["name"]) in own:
            return client_item(record.id, index, call)
        return (custom_item if name in custom else call_item)(record.id, index, call, apart)

    items = [item(index, call) for index, call in enumerate(calls)]
    if content := message["content"]:
        items.insert(0, message_item(record.id, content))
    if thoughts := message.get("reasoning_content"):
        items.insert(0, reasoning_item(record.id, thoughts))
    return items


def reasoning_item(call_id: str, thoughts: str) -> dict[str, Any]:
    """The thoughts of an answer."""
    return {
        "id": with_prefix("rs_", call_id),
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": thoughts}],
    }


def message_item(call_id: str, text: str) -> dict[str, Any]:
    """The text of an answer."""
    return {
        "id": with_prefix(MESSAGE, call_id),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def call_item(
    call_id: str, index: int, call: dict[str, Any], apart: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Call number ``index`` of an answer; ``apart`` as ``responses_tools.names_apart``."""
    return {
        "id": f"{with_prefix('fc_', call_id)}_{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": call["id"],
        **split_name(call["function"]["name"], apart),
        "arguments": call["function"]["arguments"],
    }


def custom_item(
    call_id: str, index: int, call: dict[str, Any], apart: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Call number ``index`` of an answer, of a custom tool."""
    return {
        "id": f"{with_prefix('ctc_', call_id)}_{index}",
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": call["id"],
        **split_name(call["function"]["name"], apart),
        "input": input_of(call["function"]["arguments"]),
    }
