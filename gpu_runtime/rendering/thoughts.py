"""Thoughts of a reasoning model in its text: where they begin and end, separated from the answer as it arrives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ThoughtFormat:
    """Thoughts stand between ``opening`` and ``closing``; the newlines inside the marks and after them are layout.

    ``begins_inside``: the chat template opens the assistant's turn with ``opening``, so that an answer starts in them.
    Example: ``ThoughtFormat("<think>", "</think>").split("<think>\\nhm\\n</think>\\n\\nfour") == ("hm", "four")``.
    """

    opening: str
    closing: str
    begins_inside: bool = False

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
        end = self._held.find(self._form.closing)
        if end >= 0:
            thoughts = self._held[:end].rstrip("\n")
            self._held = self._held[end + len(self._form.closing) :]
            self._is_inside, self._is_past, self._trims = False, True, True
            return thoughts
        safe = len(self._held) - _overlap(self._held, self._form.closing)
        thoughts = self._held[:safe].rstrip("\n")
        self._held = self._held[len(thoughts) :]
        self._trims = self._trims and not thoughts
        return thoughts

    def _take_rest(self) -> str:
        rest = self._held.lstrip("\n") if self.found and self._trims else self._held
        self._trims = self._trims and not rest
        self._held = ""
        return rest


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``mark``."""
    return next((n for n in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:n])), 0)
