"""Harmony, GPT-OSS's format: an answer is a row of messages between special tokens, each of them in
a channel.

Analysis is thoughts and final is text. Commentary is text too or, where it has a recipient, a call,
with which sampling ends: a row holds one call at most. Source: OpenAI's cookbook, "OpenAI harmony
response format".
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runtime.rendering.calls.json_text import load
from gpu_runtime.rendering.calls.pieces import MAX_NAME, CallPiece, ParsedCall
from gpu_runtime.rendering.calls.probes import PROBE
from gpu_runtime.rendering.marks import Decode, MarkedText
from gpu_runtime.rendering.thoughts import ThoughtFormat
from gpu_runtime.rendering.tool_formats import ToolFormat

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
MARKS = (START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN)
ENDS = (END, CALL, RETURN)
FUNCTIONS = "functions."
THOUGHTS = ThoughtFormat(f"{CHANNEL}analysis{MESSAGE}", END)
EFFORTS = ("low", "medium", "high")  # that the models were trained on
ROLE = re.compile(r"assistant(?:\s+to=(\S+))?\s*")
RECIPIENT_SO_FAR = re.compile(r"(\s+(t(o(=\S*\s*)?)?)?)?")
IN_CHANNEL = re.compile(r"(analysis|commentary|final)(?:\s+to=(\S+))?(?:\s+\w+)?\s*")
Meaning = tuple[str, str, list[tuple[str, Any]]]


def _unread(text: str) -> tuple[str, list[ParsedCall]]:
    return text, []  # text alone has no marks: ``HarmonyParser`` reads these calls


HARMONY_CALLS = ToolFormat("harmony", CALL, _unread, prefill=f" to={FUNCTIONS}")


@dataclass(frozen=True)
class Harmony:
    """``ids`` are those of ``MARKS``."""

    ids: Mapping[str, int]

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """What ends an answer: a tokenizer names one end of turn alone."""
        return self.ids[RETURN], self.ids[CALL]

    def parser(
        self, decode: Decode, *, may_call: bool, is_forced: bool, is_guaranteed: bool
    ) -> "HarmonyParser":
        """A reader of one answer."""
        marks = MarkedText({number: mark for mark, number in self.ids.items()}, decode)
        return HarmonyParser(
            marks, may_call=may_call, is_forced=is_forced, is_guaranteed=is_guaranteed
        )

    def meaning(self, decode: Decode, token_ids: Sequence[int], *, is_forced: bool) -> Meaning:
        """Thoughts, text and calls of ``token_ids``, an answer without the mark that ends it. A
        template writes the text beside a call as thoughts.
        """
        parser = self.parser(decode, may_call=True, is_forced=is_forced, is_guaranteed=False)
        thoughts, text, calls = parser.whole(decode(token_ids), [*token_ids, self.ids[END]])
        if calls:
            thoughts, text = beside_call(thoughts, text), ""
        return (
            (thoughts or "").strip(),
            text.strip(),
            [(call.name, json.loads(call.arguments)) for call in calls],
        )


def probed(answered: str, special_id: Callable[[str], int | None]) -> Harmony | None:
    """Set where a template writes the text of ``answered`` in its channel, and the marks are
    special tokens.
    """
    ids = {mark: token for mark in MARKS if (token := special_id(mark)) is not None}
    is_written = f"{CHANNEL}final{MESSAGE}{PROBE}" in answered
    return Harmony(ids) if is_written and len(set(ids.values())) == len(MARKS) else None


def beside_call(thoughts: str | None, text: str) -> str:
    """What stands before a call, as one: the template takes either thoughts or text."""
    return "\n".join(filter(None, [thoughts, text]))


def as_written(message: dict[str, Any]) -> dict[str, Any]:
    """A message in normal form under the names that this template reads."""
    if message["role"] != "assistant":
        return message
    form = {name: value for name, value in message.items() if name != "reasoning_content"}
    thoughts = message.get("reasoning_content")
    if "tool_calls" in message:
        form["content"], thoughts = "", beside_call(thoughts, message["content"])
    return form | ({"thinking": thoughts} if thoughts else {})


def tool_as_written(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in normal form with a description, without which this template fails."""
    return tool | {"function": {"description": "", **tool["function"]}}


class HarmonyParser:
    """Separates an answer as ``AnswerParser`` does. ``may_call`` is set where there are tools,
    ``is_forced`` where the prompt has begun the call, ``is_guaranteed`` where a grammar sees to it
    that what begins as a call is one.

    Text before a call or before more thoughts is held back, so that thoughts come first and a call
    that is none stays text. What breaks the format is text from there on, without its marks: an
    engine's own text has none.
    """

    def __init__(
        self, marks: MarkedText, *, may_call: bool, is_forced: bool, is_guaranteed: bool
    ) -> None:
        self._marks, self._may_call, self._is_guaranteed = marks, may_call, is_guaranteed
        self._role = "assistant" + (HARMONY_CALLS.prefill if is_forced else "")
        self._channel: str | None = None  # None before its mark
        self._state, self._kind = "header", ""
        self._shown = ""  # the message in work as text, should it break the format
        self._body = ""  # of an aside or a call
        self._asides: list[str] = []
        self._call: tuple[str, str] | None = None  # name, and the text that it is if it is none
        self._call_sent: int | None = None  # how many letters of its arguments, once it has begun
        self._thoughts, self._text = "", ""
        self.found = False  # thoughts, be they empty

    def more(self, text: str, token_ids: Sequence[int]) -> tuple[str, str, list[CallPiece]]:
        """The thoughts, the plain text and the pieces of calls that are certain now that ``text``
        has come, as ``token_ids``.
        """
        thoughts, plain = len(self._thoughts), len(self._text)
        for piece, is_mark in self._marks.pieces(text, token_ids):
            if is_mark:
                self._take_mark(piece)
            elif piece:
                self._take(piece)
        return self._thoughts[thoughts:], self._text[plain:], self._call_pieces()

    def whole(
        self, text: str, token_ids: Sequence[int]
    ) -> tuple[str | None, str, list[ParsedCall]]:
        """The thoughts, the plain text and the calls of a whole answer, for a parser that has read
        nothing.
        """
        self.more(text, token_ids)
        calls = []
        if self._call is not None and (self._is_guaranteed or self._state == "after"):
            arguments = self._body if self._is_guaranteed else json.dumps(json.loads(self._body))
            calls = [ParsedCall(self._call[0], arguments)]
            self._show(*self._asides)
        elif self._state != "plain":
            is_all = not (self._thoughts or self._text or self._asides)
            unfinished = self._state == "body" and self._kind == "call"
            self._show(
                *self._asides, self._body if self._kind == "aside" and self._state == "body" else ""
            )
            self._show(self._shown if unfinished or (is_all and self._state == "header") else "")
        return (self._thoughts if self.found else None), self._text, calls

    def close(self) -> list[CallPiece]:
        """Nothing: JSON that was cut is handed out as it is."""
        return []

    @property
    def said(self) -> int:
        """How many characters behind the thoughts have come."""
        return len(self._text)

    def name_of(self, index: int) -> str | None:
        """The name of call number ``index``, once it has begun."""
        return self._call[0] if self._call is not None and index == 0 else None

    def rest(self, content: str) -> str:
        """What was not handed out of ``content``, the plain text of the whole answer."""
        return content[len(self._text) :]

    def rest_of_thoughts(self, thoughts: str) -> str:
        """What was not handed out of ``thoughts``, those of the whole answer."""
        return thoughts[len(self._thoughts) :]

    def _take(self, piece: str) -> None:
        if self._state == "plain":
            self._text += piece
            return
        self._shown += piece
        if self._state == "body" and self._kind == "thoughts":
            self._thoughts += piece
        elif self._state == "body" and self._kind == "text":
            self._text += piece
        elif self._state == "body":
            self._body += piece
        elif self._state == "header" and self._channel is not None:
            self._channel += piece
        elif self._state == "header" and _may_be_role(self._role + piece):
            self._role += piece
        else:
            self._break()

    def _take_mark(self, mark: str) -> None:
        state = self._state
        if mark == START and state == "after" and self._call is None:
            self._state, self._role, self._channel, self._shown, self._body = (
                "header",
                "",
                None,
                "",
                "",
            )
        elif mark == CHANNEL and state == "header" and self._channel is None:
            self._channel, self._shown = "", self._shown.removeprefix("assistant")
        elif mark == CONSTRAIN and state == "header" and self._channel is not None:
            self._channel += " "
        elif mark == MESSAGE and state == "header":
            self._open()
        elif mark in ENDS and state == "body":
            self._close()
        elif state != "plain" and not (mark in ENDS and state == "after"):
            self._break()

    def _open(self) -> None:
        role, channel = ROLE.fullmatch(self._role), IN_CHANNEL.fullmatch(self._channel or "")
        recipient = (role and role[1]) or (channel and channel[2])
        if not role or not channel:
            self._break()
        elif recipient is not None:
            self._open_call(recipient)
        elif channel[1] == "analysis" and self._text:
            self._break()  # what was handed out as text cannot come after thoughts any more
        else:
            self._state = "body"
            self._kind = {"analysis": "thoughts", "commentary": "aside", "final": "text"}[
                channel[1]
            ]
            if self._kind == "thoughts":
                self._thoughts += "\n" if self._thoughts else ""
                self.found = True
            elif self._kind == "text":
                self._show(*self._asides)
                self._asides = []
                self._text += "\n" if self._text else ""

    def _open_call(self, recipient: str) -> None:
        name = recipient.removeprefix(FUNCTIONS)
        if not self._may_call or not 0 < len(name) <= MAX_NAME or name == recipient:
            self._break()
            return
        self._state, self._kind, self._call = "body", "call", (name, self._shown)
        if self._is_guaranteed:
            self._show(*self._asides)
            self._asides = []

    def _close(self) -> None:
        self._state = "after"
        if self._kind == "aside":
            self._asides.append(self._body)
        if self._kind != "call":
            self._shown = ""
        elif not self._is_guaranteed and not _is_object(self._body):
            self._break()

    def _break(self) -> None:
        is_out = self._state == "body" and self._kind in ("thoughts", "text")
        self._show(*self._asides, "" if is_out else self._shown)
        self._state, self._kind, self._call, self._asides = "plain", "", None, []

    def _show(self, *texts: str) -> None:
        """Text that is certain now; messages of a row stand on lines of their own."""
        self._text = "\n".join(filter(None, (self._text, *texts)))

    def _call_pieces(self) -> list[CallPiece]:
        if not self._is_guaranteed or self._call is None:
            return []
        name = self._call[0] if self._call_sent is None else None
        begin, self._call_sent = self._call_sent or 0, len(self._body)
        return (
            [CallPiece(0, name, self._body[begin:])]
            if name is not None or self._body[begin:]
            else []
        )


def _may_be_role(text: str) -> bool:
    """Whether ``text`` may be the beginning of what stands before a channel."""
    if len(text) < len("assistant"):
        return "assistant".startswith(text)
    return (
        text.startswith("assistant")
        and RECIPIENT_SO_FAR.fullmatch(text[len("assistant") :]) is not None
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(load(text), dict)
    except (ValueError, RecursionError):
        return False
