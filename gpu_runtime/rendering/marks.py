"""Marks of a template in text: in the contents of a conversation, encoded as the text that they
are, and in an answer, where some models write them as tokens.

A mark is a token that stands for itself wherever its letters are (an end of turn, a channel). What
a user or a tool wrote opens and ends nothing: before the template writes it, ``BREAK`` is put into
each mark's letters, and text that holds one is encoded apart from the template's own marks, without
any.

Special tokens are marks in every content, and so are others that the template writes around turns.
The marks around thoughts, calls and results are marks in what a tool returned; elsewhere some of
them are common words of a prompt ("think in <think> tags") or the layout of an answer, and stay as
they are.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from tokenizers import Tokenizer as Backend

from gpu_runtime.interfaces import Tokenizer

BREAK = "\ud800"  # half a surrogate pair: no text of a client holds one, and no tokenizer gets it
OF_TEXT = ("content", "reasoning_content", "name", "tool_calls")  # what is written of a message
Encode = Callable[[str], list[int]]
Message = dict[str, Any]
Decode = Callable[[Sequence[int]], str]
CONTEXT = 8  # ids that are decoded again with those behind them: several may make one character
BLOCK = 256  # ids


class TextMarks:
    """``added`` are the letters of all tokens of their own, with a pattern of each as it takes in
    the space beside it; ``special`` are those that no text has. ``turns`` are others that the
    template writes around turns, ``inner`` around thoughts, calls and results.

    Example: ``TextMarks({"<|end|>": r"<\\|end\\|>"}, {"<|end|>"}).encode`` reads the last four
    letters of ``"a<" + BREAK + "|end|>"`` as text.
    """

    def __init__(
        self,
        added: Mapping[str, str],
        special: Set[str],
        turns: Set[str] = frozenset(),
        inner: Set[str] = frozenset(),
    ) -> None:
        self._of_results = _any_of(special | turns | inner)
        self._of_texts = _any_of(special | (turns - inner))
        marks = sorted(special | turns | inner, key=len, reverse=True)
        self._marks = re.compile("|".join(added[mark] for mark in marks)) if marks else None

    def message(self, message: Message) -> Message:
        """``message`` (normal form) with a break in each mark of what it contains."""
        marks = self._of_results if message["role"] == "tool" else self._of_texts
        broken = {name: _broken(message[name], marks) for name in OF_TEXT if name in message}
        return message | broken

    def tool(self, tool: Message) -> Message:
        """The same of a tool."""
        broken: Message = _broken(tool, self._of_texts)
        return broken

    def encode(self, text: str, with_marks: Encode, as_text: Encode) -> list[int]:
        """Ids of ``text``: those parts that hold a break by ``as_text``, all others by
        ``with_marks``."""
        if self._marks is None:
            return with_marks(whole(text))
        ids: list[int] = []
        pending, position = "", 0  # what is encoded as it is, from the last part that was not
        for found in [*self._marks.finditer(text), None]:
            between = text[position : found.start() if found else len(text)]
            if BREAK in between:
                ids += with_marks(pending) if pending else []
                ids += as_text(whole(between))
                between = pending = ""
            pending += between + (found[0] if found else "")
            position = found.end() if found else position
        return ids + (with_marks(pending) if pending else [])


def whole(text: str) -> str:
    """``text`` as a reader sees it."""
    return text.replace(BREAK, "")


def added_pattern(token: Any) -> str:
    """The pattern of an added token of the tokenizers package: some take in the space beside
    them."""
    return (
        (r"\s*" if token.lstrip else "")
        + re.escape(token.content)
        + (r"\s*" if token.rstrip else "")
    )


def without_added(description: Mapping[str, Any]) -> Backend:
    """The tokenizer of ``description`` (of a tokenizer.json) without tokens of its own: all it
    reads is text, and not the first of its sequence."""
    pre = description.get("pre_tokenizer") or {}
    for part in (pre, *(pre.get("pretokenizers") or [])):
        if part.get("prepend_scheme") == "first":
            part["prepend_scheme"] = "never"
    return Backend.from_str(json.dumps({**description, "added_tokens": [], "post_processor": None}))


def _any_of(marks: Set[str]) -> re.Pattern[str] | None:
    known = {mark for mark in marks if len(mark.strip()) > 1}  # letters and blanks are no marks
    return re.compile(_longest_of(known)) if known else None


def _longest_of(words: Set[str]) -> str:
    """A pattern of the longest of ``words``, as a tree of their letters: a tokenizer may have a
    thousand marks, and a list of them is tried from its beginning at every ``<``."""
    if words == {""}:
        return ""
    rests: dict[str, set[str]] = {}
    for word in words - {""}:
        rests.setdefault(word[0], set()).add(word[1:])
    branches = [re.escape(letter) + _longest_of(rest) for letter, rest in sorted(rests.items())]
    tree = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{tree})?" if "" in words else tree


def _broken(value: Any, marks: re.Pattern[str] | None) -> Any:
    if marks is None:
        return value
    if isinstance(value, str):
        return marks.sub(lambda found: found[0][:1] + BREAK + found[0][1:], value)
    if isinstance(value, list):
        return [_broken(item, marks) for item in value]
    if isinstance(value, dict):
        return {_broken(name, marks): _broken(item, marks) for name, item in value.items()}
    return value


NO_MARKS = TextMarks({}, frozenset())


def marks_probed(tokenizer: Tokenizer, *, turns: str, loop: str, thoughts: str) -> TextMarks:
    """The marks of a template by what it writes: a conversation of plain turns (``turns``), one
    with a call and its result (``loop``), and the marks around thoughts."""
    around, in_loop, of_thoughts = (
        {m for m in tokenizer.added if m in text} for text in (turns, loop, thoughts)
    )
    special = set(map(tokenizer.entry, tokenizer.special_ids)) & set(tokenizer.added)
    return TextMarks(tokenizer.added, special, around, (in_loop - around) | of_thoughts)


class MarkedText:
    """One answer on its way: an engine's text, which has no special tokens, with those in ``marks``
    (id: text) written where they were sampled. ``decode`` makes the engine's text of ids.

    Example: with ``{7: "[THINK]"}`` the text ``"hm"`` of the ids ``[7, 40]`` is ``"[THINK]hm"``.
    """

    def __init__(self, marks: Mapping[int, str], decode: Decode) -> None:
        self._marks, self._decode = marks, decode
        self._ids: list[int] = []  # without the marks
        # how many of them stood before the last mark, and for how much text
        self._measured = self._measured_length = 0
        self._length = 0  # of the text that came
        # where in the text a mark stands that the text has not reached
        self._waiting: list[tuple[int, str]] = []

    def feed(self, text: str, token_ids: Sequence[int]) -> str:
        """``text``, which came with ``token_ids``, and its marks. An engine may hold text back, and
        never ahead.
        """
        return "".join(piece for piece, _ in self.pieces(text, token_ids))

    def pieces(self, text: str, token_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """The same as (text, whether it is a mark): an answer can hold the letters of a mark that
        are none.
        """
        if not self._marks:
            return [(text, False)]
        for token in token_ids:
            if token in self._marks:
                self._waiting.append((self._length_of_ids(), self._marks[token]))
            else:
                self._ids.append(token)
        begin, self._length = self._length, self._length + len(text)
        found, taken = list[tuple[str, bool]](), 0
        while self._waiting and self._waiting[0][0] <= self._length:
            at, mark = self._waiting.pop(0)
            upto = max(taken, at - begin)
            found += [(text[taken:upto], False), (mark, True)]
            taken = upto
        return [*found, (text[taken:], False)]

    def _length_of_ids(self) -> int:
        """The length of the text of all ids so far. Each is decoded about once, however many marks
        there are.
        """
        near = self._ids[max(0, self._measured - CONTEXT) :]
        known = near[: len(near) - (len(self._ids) - self._measured)]
        self._measured_length += len(self._decode(near)) - len(self._decode(known))
        self._measured = len(self._ids)
        return self._measured_length


def tokens_until(decode: Decode, ids: Sequence[int], length: int) -> int:
    """The least number of first ``ids`` whose text has ``length`` characters; all of them where
    none has.

    Each id is decoded about once: a search that decodes from the beginning takes 0.2 s of 35,000
    ids.
    """
    before = 0  # characters of the ids before a block
    for start in range(0, len(ids), BLOCK):
        near, block = ids[max(0, start - CONTEXT) : start], ids[start : start + BLOCK]
        known = before - len(decode(near))
        before = known + len(decode([*near, *block]))
        if before >= length:
            break
    else:
        return len(ids)
    sizes = range(len(block))
    return start + bisect_left(
        sizes, length, key=lambda n: known + len(decode([*near, *block[:n]]))
    )
