"""Thoughts of a reasoning model in its text: where they begin and end, separated from the answer as
it arrives.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_runtime.rendering.calls.pieces import overlap
from gpu_runtime.rendering.calls.probes import PROBE, user

PROBE_THOUGHT = "probing"
# at the end of a prompt: an answer starts in thoughts
OPENED = re.compile(r"<(think|thinking|reasoning)>\s*\Z")
Write = Callable[[list[dict[str, Any]]], str | None]  # a template; None where it refuses


@dataclass(frozen=True)
class ThoughtFormat:
    """Thoughts stand between ``opening`` and ``closing``; the newlines inside the marks and after
    them are layout.

    ``begins_inside``: the chat template opens the assistant's turn with ``opening``, so that an
    answer starts in them. ``or_before``: what ends thoughts that are not closed, and stays: the
    mark of a call. Example: ``ThoughtFormat("<think>",
    "</think>").split("<think>\\nhm\\n</think>\\n\\nfour") == ("hm", "four")``.
    """

    opening: str
    closing: str
    begins_inside: bool = False
    or_before: tuple[str, ...] = ()

    def split(self, text: str) -> tuple[str | None, str]:
        """The thoughts (None where there are none) and the rest of a whole answer."""
        splitter = ThoughtSplitter(self)
        thoughts, rest = splitter.feed(text)
        more_thoughts, more_rest = splitter.finish()
        return (thoughts + more_thoughts if splitter.found else None), rest + more_rest


class ThoughtSplitter:
    """One answer on its way. What is not certain yet is held back: a mark may come in pieces."""

    def __init__(self, form: ThoughtFormat | None) -> None:
        self._form, self._held, self._trims = form, "", True
        self.found = form is not None and form.begins_inside
        self._is_inside = self.found
        self._is_past = form is None

    @property
    def is_inside(self) -> bool:
        """Whether thoughts have begun and not ended."""
        return self._is_inside

    def feed(self, text: str) -> tuple[str, str]:
        """The thoughts and the rest that are certain now."""
        self._held += text
        thoughts = ""
        if not self._is_past and not self._is_inside:
            self._begin()
        if self._is_inside:
            thoughts = self._take_thoughts()
        return thoughts, self._take_rest() if self._is_past else ""

    def finish(self) -> tuple[str, str]:
        """What was held back, once the answer has ended."""
        held, self._held = self._held, ""
        return (held.rstrip("\n"), "") if self._is_inside else ("", held)

    def _begin(self) -> None:
        assert self._form is not None, "without a format everything is the rest"
        start = self._held.lstrip()
        if start.startswith(self._form.opening):
            self.found = self._is_inside = True
            self._held = start[len(self._form.opening) :]
        elif not self._form.opening.startswith(start):
            self._is_past, self._trims = True, False

    def _take_thoughts(self) -> str:
        assert self._form is not None, "there are thoughts"
        if self._trims:
            self._held = self._held.lstrip("\n")
        marks = (self._form.closing, *self._form.or_before)
        ends = [(at, mark) for mark in marks if (at := self._held.find(mark)) >= 0]
        if ends:
            end, mark = min(ends)
            thoughts = self._held[:end].rstrip("\n")
            self._held = self._held[end + (len(mark) if mark == self._form.closing else 0) :]
            self._is_inside, self._is_past, self._trims = False, True, True
            return thoughts
        safe = len(self._held) - max(overlap(self._held, mark) for mark in marks)
        thoughts = self._held[:safe].rstrip("\n")
        self._held = self._held[len(thoughts) :]
        self._trims = self._trims and not thoughts
        return thoughts

    def _take_rest(self) -> str:
        rest = self._held.lstrip("\n") if self.found and self._trims else self._held
        self._trims = self._trims and not rest
        self._held = ""
        return rest


def probed(write: Write, prompt: str) -> ThoughtFormat | None:
    """Where thoughts stand in an answer to ``prompt``: as the template writes those of a message,
    or opens a turn with them."""
    if found := OPENED.search(prompt):
        return ThoughtFormat(f"<{found[1]}>", f"</{found[1]}>", begins_inside=True)
    answer = {"role": "assistant", "content": PROBE * 2, "reasoning_content": PROBE_THOUGHT}
    before, _, after = (write([*user(), answer]) or "").partition(PROBE_THOUGHT)
    if not before.startswith(prompt) and (found := OPENED.search(before)):
        opening = f"<{found[1]}>"  # the prompt of a turn without thoughts closes them
    else:
        opening = before.removeprefix(prompt).strip()
    closing = after.partition(PROBE * 2)[0].strip()
    return ThoughtFormat(opening, closing) if opening and closing and after else None


def no_thoughts(thoughts: ThoughtFormat | None, start: str | None) -> str:
    """How an answer without thoughts closes those that its prompt opens. ``start`` is what the
    template writes between the two, None where it rewrites the prompt."""
    if thoughts is None or not thoughts.begins_inside:
        return ""
    return f"{thoughts.closing}\n" if start is None else start
