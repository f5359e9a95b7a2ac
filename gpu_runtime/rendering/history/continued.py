"""What a request continues whose beginning is another than it was: other tools, another line of the
system's text.

The name of a conversation is that of all that stands before it, so such a request has no name in
common with the earlier call. The call is found by its answer, and by what that answered; a request
without answers by its turns, where most lines of the system's text are as they were.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpu_runtime.journal.records import CallRecord
from gpu_runtime.rendering.messages import canonical, compared, normal_answer, normal_tool

CHANGED = "the client sent this message in another way than it was"
CHANGED_SYSTEM = "the client changed the system's text"
CHANGED_VARIABLES = "the client set other variables of the chat template"
SAME_LINES = 0.5  # of the system's text, for the same turns under it to be the same conversation
MAX_NAMED = 3  # tools in a reason
Message = dict[str, Any]
S = TypeVar("S")


@dataclass(frozen=True)
class _Read(Generic[S]):
    """What a call read: ``messages`` behind the first ``messages_from``, which are its parent's and
    their answer."""

    source: S
    tools: Sequence[Message]
    variables: Mapping[str, Any]
    parent: "_Read[S] | None"
    messages_from: int
    messages: Sequence[Message]
    answer: Message

    def all(self) -> list[Message]:
        """Every message, the answer too."""
        parts: list[Sequence[Message]] = [[self.answer], self.messages]
        read = self
        while read.parent is not None:
            parts.append([*read.parent.messages, read.parent.answer])
            read = read.parent
        return [message for part in reversed(parts) for message in part]


class Answered(Generic[S]):
    """The answers of an episode, as sources of type ``S``, by what they answered."""

    def __init__(self) -> None:
        self._read: dict[str, _Read[S]] = {}
        self._by_answer: dict[str, _Read[S]] = {}
        self._by_turns: dict[str, _Read[S]] = {}

    def add(self, call: CallRecord, source: S) -> None:
        """Let requests be known as continuing the first answer of ``call``."""
        parent = self._read.get(call.parent.call_id) if call.parent else None
        tools = [normal_tool(tool["function"]) for tool in call.options.get("tools") or []]
        variables = call.options.get("template_variables") or {}
        answer = normal_answer(call.completions[0].message)
        read = _Read(
            source, tools, variables, parent, call.messages_from, list(call.messages), answer
        )
        self._read[call.id] = read
        if (before := read.messages or read.all()[:-1]) and _says_something(answer):
            self._by_answer[_pair(before[-1], answer)] = read
        if parent is None:
            self._by_turns[_turns(read.messages)[-1]] = read

    def continued(
        self, messages: Sequence[Message], tools: Sequence[Message], variables: Mapping[str, Any]
    ) -> tuple[S, int, str] | None:
        """What ``messages`` continue, the message at which they part, and what changed; None for
        what continues nothing."""
        for index in range(len(messages) - 1, 0, -1):
            read = self._by_answer.get(_pair(messages[index - 1], messages[index]))
            if read is not None:
                return read.source, *_change(read, messages, tools, variables)
        return self._under_other_system(messages, tools, variables)

    def _under_other_system(
        self, messages: Sequence[Message], tools: Sequence[Message], variables: Mapping[str, Any]
    ) -> tuple[S, int, str] | None:
        for name in reversed(_turns(messages)):
            read = self._by_turns.get(name)
            if read is not None and _alike(read.messages, messages):
                return read.source, *_change(read, messages, tools, variables)
        return None


def _change(
    read: _Read[Any],
    messages: Sequence[Message],
    tools: Sequence[Message],
    variables: Mapping[str, Any],
) -> tuple[int, str]:
    """The first message that differs, and why in words."""
    if dict(read.variables) != dict(variables):
        return 0, CHANGED_VARIABLES
    if list(read.tools) != list(tools):
        return 0, _changed_tools(read.tools, tools)
    pairs = enumerate(zip(read.all(), messages, strict=False))
    at = next((n for n, (old, new) in pairs if compared(old) != compared(new)), 0)
    return at, CHANGED_SYSTEM if messages[at]["role"] == "system" else CHANGED


def _changed_tools(before: Sequence[Message], now: Sequence[Message]) -> str:
    old, new = ({tool["function"]["name"]: tool for tool in tools} for tools in (before, now))
    found = {
        "added": [name for name in new if name not in old],
        "left out": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    told = [f"{_named(names)} {what}" for what, names in found.items() if names]
    return f"the client sent other tools: {', '.join(told) or 'in another order'}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _alike(before: Sequence[Message], now: Sequence[Message]) -> bool:
    """Whether the systems' texts differ, and have most of their lines in common."""
    old, new = (set(_system(messages).splitlines()) for messages in (before, now))
    return old != new and len(old & new) >= SAME_LINES * max(len(old), len(new))


def _system(messages: Sequence[Message]) -> str:
    return "\n".join(message["content"] for message in messages if message["role"] == "system")


def _says_something(answer: Message) -> bool:
    return bool(compared(answer)["content"] or answer.get("tool_calls"))


def _pair(before: Message, answer: Message) -> str:
    return _name([compared(before), compared(answer)])


def _turns(messages: Sequence[Message]) -> list[str]:
    """Names of the first turn, of the first two, and so on: without the system's, wherever they
    stand."""
    names = [""]
    for message in messages:
        if message["role"] != "system":
            names.append(_name([names[-1], compared(message)]))
    return names[1:] or names


def _name(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
