"""Pages of a session's log: a reader goes on from where it was, over the ends of runtimes, whatever
was cut off before.

A launcher gives the last lines of a log and no numbers, so a cursor says what stands before its
place: the name of the launch, how many of its lines the reader knew, how long the last one was, and
a digest of the last of them.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from console.errors import InvalidRequest

ANCHOR_LINES = 20  # before a cursor that its digest is of
CURSOR = re.compile(r"(\S{0,150})\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9a-f]{16})")


@dataclass(frozen=True)
class LogPart:
    """What is known of one runtime's log: its last lines, oldest first."""

    launch: str
    lines: Sequence[str]


@dataclass(frozen=True)
class LogPage:
    """``cursor`` is the place after the last line that was looked at. ``continues``: the first of
    ``lines`` is the rest of the last one before the page. ``is_cut``: lines between are not there
    any more.
    """

    lines: list[str]
    cursor: str
    continues: bool = False
    is_cut: bool = False


def last_page(part: LogPart, *, lines: int, containing: str) -> LogPage:
    """The last ``lines`` of those with ``containing``, in any case."""
    wanted = containing.casefold()
    found = [line for line in part.lines if wanted in line.casefold()][-lines:]
    return LogPage(found, cursor_at(part, len(part.lines)))


def next_page(parts: Sequence[LogPart], *, after: str, lines: int, containing: str) -> LogPage:
    """The first ``lines`` of those with ``containing`` after the cursor ``after``; ``parts`` are in
    order.

    Where the place is not there any more, from the beginning of what is. Raises InvalidRequest for
    what is no cursor.
    """
    read = CURSOR.fullmatch(after)
    if read is None:
        raise InvalidRequest(
            "This cursor belongs to no place of a log.", hint="Start again without a cursor."
        )
    launch, number, length, digest = read[1], int(read[2]), int(read[3]), read[4]
    named = next((at for at, part in enumerate(parts) if part.launch == launch), None)
    place = None if named is None else _find(parts[named].lines, number, length, digest)
    first = 0 if named is None else named
    wanted, continues, at = containing.casefold(), False, LogPart(launch, ())
    found: list[str] = []
    for at in parts[first:]:
        begin = place if place is not None and at.launch == launch else 0
        if begin and len(whole := at.lines[begin - 1]) > length and wanted in whole.casefold():
            # else the reader was not given its beginning
            continues = wanted in whole[:length].casefold()
            found.append(whole[length:] if continues else whole)
        for number in range(begin, len(at.lines)):
            if len(found) >= lines:
                return LogPage(found, cursor_at(at, number), continues, place is None)
            if wanted in at.lines[number].casefold():
                found.append(at.lines[number])
    cursor = cursor_at(at, len(at.lines)) if parts else after
    return LogPage(found, cursor, continues, place is None and bool(parts))


def cursor_at(part: LogPart, place: int) -> str:
    """The place before line number ``place`` of ``part``, and after the one before it as far as it
    is written.
    """
    length = len(part.lines[place - 1]) if place else 0
    return f"{part.launch}.{place}.{length}.{_digest(part.lines, place, length)}"


def _find(lines: Sequence[str], number: int, length: int, digest: str) -> int | None:
    """Where the cursor is by now: what comes first may be cut off, and was not all read then. The
    last such place, where the same lines were written more than once.
    """
    places = [number, *range(len(lines), -1, -1)]
    return next(
        (
            place
            for place in places
            if place <= len(lines) and _digest(lines, place, length) == digest
        ),
        None,
    )


def _digest(lines: Sequence[str], place: int, length: int) -> str:
    """Of the lines before ``place``, the last of them up to ``length``: a longer one was not
    finished when it was read.
    """
    seen = list(lines[max(0, place - ANCHOR_LINES) : place])
    if seen:
        seen[-1] = seen[-1][:length]
    return hashlib.sha256("\n".join([str(len(seen)), *seen]).encode()).hexdigest()[:16]
