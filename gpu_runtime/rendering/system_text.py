"""One normal form of the system's text, whichever dialect it came in and wherever it stands.

Several messages of the system at the start are one, joined by an empty line. That one, and a later
one, is a turn of the system where the template writes such a turn at its place; else it is the text
of a user in ``<system>`` marks. That joins the turn of a user beside it where the template refuses
two in a row. The same messages are always written the same way, and what is added behind an answer
never changes what stands before it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

OPENING, CLOSING = "<system>\n", "\n</system>"
BETWEEN = "\n\n"
AS_USER = "as turns of a user in <system> marks"
# A line in the form of a header of its own: Claude Code 2.1.332 begins with
# x-anthropic-billing-header, parts of which differ from call to call.
ACCOUNTING = re.compile(r"x(?:-[a-z0-9]+){2,}:[^\n]*", re.IGNORECASE)
USER, ASSISTANT, FIRST, LATER = "probing u7", "probing a7", "probing f7", "probing s7"
Message = dict[str, Any]
Write = Callable[[list[Message]], str | None]  # a template; None where it refuses


@dataclass(frozen=True)
class SystemText:
    """How one template takes it. ``first_turns``: it writes a turn of the system at the start;
    ``later_turns``: and a later one; ``users_in_a_row``: it takes two turns of a user."""

    first_turns: bool = True
    later_turns: bool = True
    users_in_a_row: bool = True

    def written(self, messages: Sequence[Message]) -> list[Message]:
        """``messages`` (normal form) as the template gets them."""
        start = _leading(messages)
        lead = [_merged(messages[:start])] if start > 1 else list(messages[:start])
        form = lead if self.first_turns else []
        rest = messages[start:] if self.first_turns else [*lead, *messages[start:]]
        # The last of ``form`` is a user's turn that was made here or joined to one that was
        joins = False
        for message in rest:
            is_made = message["role"] == "system" and not self.later_turns
            if is_made:
                message = {"role": "user", "content": f"{OPENING}{message['content']}{CLOSING}"}
            follows_user = bool(form) and form[-1]["role"] == "user"
            if (
                message["role"] == "user"
                and follows_user
                and (is_made or joins)
                and not self.users_in_a_row
            ):
                form[-1] = form[-1] | {
                    "content": form[-1]["content"] + BETWEEN + message["content"]
                }
                joins = True
                continue
            joins = is_made
            form.append(message)
        return form

    def changes(self, messages: Sequence[Message]) -> dict[str, Any]:
        """What is written otherwise than it was sent, as labels of the call; the accounting line as
        it was sent."""
        start = _leading(messages)
        later = [
            number
            for number, message in enumerate(messages)
            if number >= start and message["role"] == "system"
        ]
        merged: dict[str, Any] = {"system messages merged": start} if start > 1 else {}
        if start and (line := accounting(messages[0])):
            merged["accounting line"] = line
        if start and not self.first_turns:
            merged["first system message"] = AS_USER
        how = "as turns of the system" if self.later_turns else AS_USER
        return merged | (
            {"later system messages": {"messages": later, "written": how}} if later else {}
        )


def accounting(message: Message) -> str:
    """The line that a client counts its calls by at the start of the system's text; empty without
    one."""
    found = ACCOUNTING.match(message["content"]) if message["role"] == "system" else None
    return found[0] if found else ""


def probed(write: Write) -> SystemText:
    """How the template that ``write`` stands for takes the system's text."""
    first = write([{"role": "system", "content": FIRST}, _user()])
    takes_first = (first is not None and FIRST in first) or write([_user()]) is None
    return SystemText(
        first_turns=takes_first,
        later_turns=takes_first and _writes_later(write),
        users_in_a_row=write([_user(), _user()]) is not None,
    )


def _writes_later(write: Write) -> bool:
    """Whether a later turn of the system stands at its place and leaves what is before it as it
    was: with and without one at the start, behind a user and behind an answer, with and without a
    turn after it."""
    answer = {"role": "assistant", "content": ASSISTANT}
    later = {"role": "system", "content": LATER}
    first = {"role": "system", "content": FIRST}
    for start in ([], [first]):
        for before in ([*start, _user()], [*start, _user(), answer]):
            for after in ([], [answer] if before[-1]["role"] == "user" else [_user()]):
                if not _stands(write, before, later, after):
                    return False
    return True


def _stands(write: Write, before: list[Message], later: Message, after: list[Message]) -> bool:
    as_user = write([*before, later | {"role": "user"}, *after])
    whole = write([*before, later, *after])
    if as_user is None:  # the template refuses these in any case
        return True
    if whole is None or whole.count(LATER) != 1:
        return False
    head, _, tail = whole.partition(LATER)
    # What stands before is written as before a user's turn: templates may write a last answer in
    # its own way.
    last = before[-1]["content"]
    kept = head.rpartition(last)[0] == as_user.partition(LATER)[0].rpartition(last)[0]
    return kept and last in head and all(message["content"] in tail for message in after)


def _leading(messages: Sequence[Message]) -> int:
    return next(
        (n for n, message in enumerate(messages) if message["role"] != "system"), len(messages)
    )


def _merged(messages: Sequence[Message]) -> Message:
    return {"role": "system", "content": BETWEEN.join(message["content"] for message in messages)}


def _user() -> Message:
    return {"role": "user", "content": USER}
