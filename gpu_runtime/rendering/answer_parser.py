"""Separates an answer as it arrives into thoughts, plain text, and calls of tools, piece by piece.

A call streams while it is written only where a grammar holds the model to a whole one (a forced
call, a strict tool). Elsewhere the answer is known to be calls at its end alone: one slip makes all
of it plain text.
"""

import json
import re
from collections.abc import Sequence

from gpu_runtime.rendering.calls.gemma import GemmaScanner
from gpu_runtime.rendering.calls.pieces import CallPiece, ParsedCall, joined
from gpu_runtime.rendering.calls.xml import XmlScanner
from gpu_runtime.rendering.marks import MarkedText
from gpu_runtime.rendering.thoughts import ThoughtFormat, ThoughtSplitter
from gpu_runtime.rendering.tool_formats import ToolFormat, new_id


class CallScanner:
    """Finds calls in text that a grammar of `call_grammars` allows. A call that is cut short counts
    with what it has.

    Example: ``CallScanner(HERMES).feed('{"name": "f", "arguments": {"a"')`` is ``[CallPiece(0, "f",
    '{"a"')]``.
    """

    def __init__(self, call_format: ToolFormat) -> None:
        key = re.escape(json.dumps(call_format.arguments_key))
        in_object = r'\{"name": ("(?:[^"\\]|\\.)*"), ' + key + ": "
        with_id = f"(?:{re.escape(call_format.id_mark)}(\\w+))?" if call_format.id_mark else "()"
        before_mark = r"([\w.-]+)" + with_id + re.escape(call_format.arguments_mark)
        self._is_in_object = not call_format.arguments_mark
        self._head = re.compile(in_object if self._is_in_object else before_mark)
        self._between = ""  # text since the last call in which the next one may have begun
        self._index, self._is_inside = -1, False
        self._named: list[ParsedCall] = []
        self._depth, self._in_string, self._escaped = 0, False, False

    def feed(self, text: str) -> list[CallPiece]:
        """At most one piece of each call."""
        pieces: list[CallPiece] = []
        while text:
            name = call_id = None
            if not self._is_inside:
                self._between += text
                head = self._head.search(self._between)
                if head is None:
                    break
                name = json.loads(head[1]) if self._is_in_object else head[1]
                call_id = None if self._is_in_object else new_id(head[2] or "", self._named)
                self._named.append(ParsedCall(name, "", call_id))
                text = self._between[head.end() :]
                self._index, self._is_inside, self._between = self._index + 1, True, ""
            end = self._value_end(text)
            if name is not None or end:
                pieces.append(CallPiece(self._index, name, text[:end], call_id))
            text = text[end + self._is_in_object :]  # without the brace that closes the call
        return pieces

    def close(self) -> list[CallPiece]:
        """Nothing: JSON that was cut is handed out as it is."""
        return []

    def _value_end(self, text: str) -> int:
        """How much of ``text`` belongs to the arguments; leaves the call if it ends there."""
        for index, letter in enumerate(text):
            if self._in_string:
                self._in_string = self._escaped or letter != '"'
                self._escaped = letter == "\\" and not self._escaped
            elif letter == '"':
                self._in_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                if self._depth == 0:
                    self._is_inside = False
                    return index
                self._depth -= 1
                if self._depth == 0 and not self._is_in_object:
                    self._is_inside = False
                    return index + 1
        return len(text)


def scanner_of(call_format: ToolFormat) -> CallScanner | XmlScanner | GemmaScanner:
    """What finds the calls of an answer that a grammar holds to ``call_format``."""
    if call_format.style == "gemma":
        return GemmaScanner()
    return (
        XmlScanner(call_format.schemas) if call_format.style == "xml" else CallScanner(call_format)
    )


class AnswerParser:
    """``call_format`` is set where tools may be called, ``is_forced`` where the answer must be a
    call, and ``is_guaranteed`` where a grammar sees to it that what begins as a call is one.
    ``thoughts`` is the format of those that may come first; ``marks`` writes the special tokens
    into the text that belong to these formats.
    """

    def __init__(
        self,
        call_format: ToolFormat | None,
        *,
        is_forced: bool,
        is_guaranteed: bool,
        marks: MarkedText,
        thoughts: ThoughtFormat | None = None,
    ) -> None:
        call_format = call_format.strict if call_format and is_guaranteed else call_format
        self._format, self._marks = call_format, marks
        self._thoughts, self._splitter, self._thoughts_sent = thoughts, ThoughtSplitter(thoughts), 0
        self._scanner = scanner_of(call_format) if call_format and is_guaranteed else None
        self._names: dict[int, str] = {}
        self._text, self._sent, self._scanned = "", 0, 0
        self._calls_from = 0 if is_forced else None  # where plain text ends for good

    def more(self, text: str, token_ids: Sequence[int]) -> tuple[str, str, list[CallPiece]]:
        """The thoughts, the plain text and the pieces of calls that are certain now that ``text``
        has come, as ``token_ids``.
        """
        return self._more(self._marks.feed(text, token_ids))

    def whole(
        self, text: str, token_ids: Sequence[int]
    ) -> tuple[str | None, str, list[ParsedCall]]:
        """The thoughts, the plain text and the calls of a whole answer, for a parser that has read
        nothing.
        """
        marked = self._marks.feed(text, token_ids)
        thoughts, rest = self._thoughts.split(marked) if self._thoughts else (None, marked)
        if self._format is None:
            return thoughts, rest, []
        if self._scanner is None:
            return thoughts, *self._format.read(rest)
        _, content, pieces = self._more(marked)  # as a stream of the same answer hands them out
        pieces = joined([*pieces, *self.close()])
        calls = [ParsedCall(piece.name or "", piece.arguments, piece.id) for piece in pieces]
        return thoughts, content if calls else rest, calls

    def close(self) -> list[CallPiece]:
        """What the answer's end adds to a call that it cut short."""
        return self._scanner.close() if self._scanner else []

    def _more(self, marked: str) -> tuple[str, str, list[CallPiece]]:
        thoughts, text_now = self._splitter.feed(marked)
        self._thoughts_sent += len(thoughts)
        self._text += text_now
        safe = self._plain_length()
        plain, self._sent = self._text[self._sent : safe], max(self._sent, safe)
        if self._scanner is None or self._calls_from is None:
            return thoughts, plain, []
        start = max(self._scanned, self._calls_from)
        self._scanned = len(self._text)
        pieces = self._scanner.feed(self._text[start:])
        self._names |= {piece.index: piece.name for piece in pieces if piece.name is not None}
        return thoughts, plain, pieces

    @property
    def is_thinking(self) -> bool:
        """Whether thoughts have begun and not ended."""
        return self._splitter.is_inside

    @property
    def said(self) -> int:
        """How many characters behind the thoughts have come."""
        return len(self._text)

    def name_of(self, index: int) -> str | None:
        """The name of call number ``index``, once it has begun."""
        return self._names.get(index)

    def rest(self, content: str) -> str:
        """What was not handed out of ``content``, the plain text of the whole answer."""
        return content[self._sent :]

    def rest_of_thoughts(self, thoughts: str) -> str:
        """What was not handed out of ``thoughts``, those of the whole answer."""
        return thoughts[self._thoughts_sent :]

    def _plain_length(self) -> int:
        if self._format is None:
            return len(self._text)
        if self._calls_from is None:
            self._calls_from = self._find_calls(self._format)
        if self._calls_from is not None:
            return len(self._text[: self._calls_from].rstrip())
        return self._format.plain_length(self._text)

    def _find_calls(self, call_format: ToolFormat) -> int | None:
        if call_format.at_start:
            begun = self._text.lstrip()
            return 0 if begun.startswith(call_format.marker) else None
        return min(
            (at for mark in call_format.starts if (at := self._text.find(mark)) >= 0), default=None
        )
