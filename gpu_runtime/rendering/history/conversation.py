"""The calls of one episode by the conversations that they read and wrote: what a later request
continues.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runtime.journal.records import CallRecord, Completion, signature_of
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.history.continued import Answered
from gpu_runtime.rendering.messages import (
    SIGNATURE,
    chain,
    extended,
    normal_answer,
    normal_tool,
    plain,
)
from gpu_runtime.rendering.system_text import accounting
from gpu_runtime.rendering.tool_formats import ToolFormat


@dataclass(frozen=True)
class ReusablePrefix:
    """A completion that a later request may continue. ``forced`` answers stand after a prefill."""

    call_id: str
    choice: int
    prompt_ids: tuple[int, ...]
    answer: Completion
    forced: ToolFormat | None


@dataclass(frozen=True)
class Request:
    """A request's messages with each echoed answer as it was recorded, and their ``chain``."""

    messages: list[dict[str, Any]]
    names: list[str]


class Conversation:
    """The completions of one episode by the name of the conversation that each ends, by text and by
    tool-call ids.
    """

    def __init__(
        self, calls: Sequence[CallRecord] = (), tool_format: ToolFormat | None = None
    ) -> None:
        self._by_name: dict[str, list[ReusablePrefix]] = {}
        self._by_signature: dict[str, ReusablePrefix] = {}
        # a model that names its calls may repeat itself
        self._by_call_id: dict[str, list[ReusablePrefix]] = {}
        # what a prompt began with, from its first user message on
        self._read: dict[str, ReusablePrefix] = {}
        self._prompts: set[str] = set()  # whole prompts
        self._keys: dict[tuple[str, int], str] = {}
        self._texts: list[tuple[str, str, ReusablePrefix]] = []  # prompt, with its answer
        self._answered: Answered[ReusablePrefix] = Answered()
        # the first accounting line of each system text, by the text without it
        self._accounted: dict[str, str] = {}
        for call in calls:
            self.add(call, tool_format)

    def add(self, call: CallRecord, tool_format: ToolFormat | None) -> None:
        """Let later requests continue ``call``."""
        if call.status != "completed":
            return
        forced = tool_format if call.options.get("forced_tool") else None
        prompt = call.options.get("prompt")
        for answer in call.completions:
            source = ReusablePrefix(call.id, answer.choice, call.prompt_ids_P, answer, forced)
            if answer.splice_key:
                self._by_name.setdefault(answer.splice_key, []).append(source)
                for call_id in _call_ids(answer.message):
                    self._by_call_id.setdefault(call_id, []).append(source)
                self._keys[call.id, answer.choice] = answer.splice_key
                if answer.choice == 0:
                    self._by_signature[signature_of(call.id)] = source
                    self._note_prompt(call, source)
                    self._answered.add(call, source)
            elif isinstance(prompt, str):
                self._texts.append((prompt, prompt + answer.text, source))

    def earlier_text(self, prompt: str) -> tuple[int, ReusablePrefix] | None:
        """The longest text (prompt and answer) that ``prompt`` starts with, as (its length,
        source).
        """
        found = [(len(text), source) for _, text, source in self._texts if prompt.startswith(text)]
        return max(found, key=lambda pair: pair[0], default=None)

    def departed_text(self, prompt: str) -> ReusablePrefix | None:
        """The latest answer to the longest prompt that ``prompt`` goes on from in another way."""
        found = [
            (len(asked), n)
            for n, (asked, _, _) in enumerate(self._texts)
            if _goes_on(asked, prompt)
        ]
        return self._texts[max(found)[1]][2] if found else None

    def recognise(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        variables: Mapping[str, Any] | None = None,
    ) -> Request:
        """The request as it was recorded: clients strip thoughts, trim and indent texts, renumber
        calls, and count them in the system's first line.

        Raises BadRequest for arguments that are no object and came from no answer that was cut.
        """
        known, names = [], chain([], tools, variables)
        for number, message in enumerate(map(self._as_first, messages)):
            if message["role"] == "assistant" and (source := self._echoed(names[-1], message)):
                message = normal_answer(source.answer.message)
            elif (call := _no_object(message)) is not None:
                raise _no_arguments(f"messages.{number}.tool_calls.{call}.function.arguments")
            known.append({name: value for name, value in message.items() if name != SIGNATURE})
            names.append(extended(names[-1], message))
        return Request(known, names)

    def earlier(self, request: Request) -> Iterator[tuple[int, ReusablePrefix]]:
        """What the request continues, longest first, as (number of its messages, source).

        Of equal answers the one whose tool-call ids, then whose text the client echoes is meant,
        else the latest.
        """
        for count in range(len(request.messages), 1, -1):
            message = request.messages[count - 1]
            if message["role"] == "assistant" and (
                found := self._by_name.get(request.names[count])
            ):
                yield count, _meant(found, message)

    def departed(self, request: Request, spliced: int) -> tuple[int, ReusablePrefix] | None:
        """The message at which a request leaves an earlier call that it continues otherwise, and
        that call.

        ``spliced`` of its messages are known to be as they were. A fork that keeps no later answer
        is no such request.
        """
        names, messages = request.names, request.messages
        for index in range(len(messages) - 1, spliced - 1, -1):
            if (source := self._read.get(names[index])) is not None:
                later = any(message["role"] == "assistant" for message in messages[index:])
                return (index, source) if later or names[index] in self._prompts else None
        return None

    def continued(
        self, request: Request, tools: Sequence[dict[str, Any]], variables: Mapping[str, Any]
    ) -> tuple[ReusablePrefix, int, str] | None:
        """What the request continues although it begins otherwise, where they part, and what
        changed."""
        return self._answered.continued(request.messages, tools, variables)

    def _as_first(self, message: dict[str, Any]) -> dict[str, Any]:
        """``message`` with the accounting line that the episode's first call had of the same
        text."""
        if not (line := accounting(message)):
            return message
        rest = message["content"].removeprefix(line)
        return message | {"content": self._accounted.get(rest, line) + rest}

    def _note_prompt(self, call: CallRecord, source: ReusablePrefix) -> None:
        tools = [normal_tool(tool["function"]) for tool in call.options.get("tools") or []]
        parent = self._keys.get((call.parent.call_id, call.parent.choice)) if call.parent else None
        name, has_user = (
            parent or chain([], tools, call.options.get("template_variables"))[0],
            parent is not None,
        )
        if has_user:
            self._read[name] = source
        for message in call.messages:
            if line := accounting(message):
                self._accounted.setdefault(message["content"].removeprefix(line), line)
                message = self._as_first(message)
            if message["role"] == "assistant" and (echoed := self._echoed(name, message)):
                message = normal_answer(echoed.answer.message)
            name = extended(name, message)
            has_user = has_user or message["role"] == "user"
            if has_user:
                self._read[name] = source
        self._prompts.add(name)

    def _echoed(self, name: str, message: dict[str, Any]) -> ReusablePrefix | None:
        """The recorded answer that ``message`` is, after the conversation ``name``: by the
        signature of its thoughts, by its tool-call ids, of equal ones that which was given there,
        then by its text."""
        ids = _call_ids(message)
        signed = self._by_signature.get(message.get(SIGNATURE, ""))
        if signed is not None and _says_the_same(message, signed, ids):
            return signed
        sources = self._by_call_id.get(ids[0], []) if ids else []
        if same := [source for source in sources if _says_the_same(message, source, ids)]:
            return max(reversed(same), key=lambda source: _was_given_after(name, source))
        found = self._by_name.get(extended(name, message))
        return _meant(found, message) if found else None


def _no_object(message: dict[str, Any]) -> int | None:
    """The first call of ``message`` whose arguments are no object."""
    arguments = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
    return next(
        (number for number, value in enumerate(arguments) if not isinstance(value, dict)), None
    )


def _no_arguments(path: str) -> BadRequest:
    return BadRequest(
        f"{path}: a call's arguments are a JSON object, or its text",
        hint="Send the arguments as they came with the call; an empty object where there are none.",
        param=path,
    )


def _goes_on(asked: str, prompt: str) -> bool:
    return prompt.startswith(asked) and prompt != asked


def _was_given_after(name: str, source: ReusablePrefix) -> bool:
    return source.answer.splice_key == extended(name, normal_answer(source.answer.message))


def _says_the_same(message: dict[str, Any], source: ReusablePrefix, ids: list[str]) -> bool:
    """Whether an echo of the answer's calls has them as they were; some clients drop the text
    beside them.
    """
    recorded = normal_answer(source.answer.message)
    functions = [
        [call["function"] for call in each.get("tool_calls", [])] for each in (message, recorded)
    ]
    text = plain(message["content"])
    return (
        ids == _call_ids(recorded)
        and functions[0] == functions[1]
        and text in ("", plain(recorded["content"]))
    )


def _meant(found: Sequence[ReusablePrefix], message: dict[str, Any]) -> ReusablePrefix:
    ids, thoughts = _call_ids(message), message.get("reasoning_content")

    def likeness(source: ReusablePrefix) -> tuple[bool, bool, bool]:
        answer = source.answer.message
        same_thoughts = thoughts is not None and thoughts == answer.get("reasoning_content")
        return (
            _call_ids(answer) == ids,
            (answer["content"] or "") == message["content"],
            same_thoughts,
        )

    return max(reversed(found), key=likeness)


def _call_ids(message: dict[str, Any]) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or []]
