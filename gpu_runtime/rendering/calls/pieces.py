"""What is read of a tool call: whole, or piece by piece while it is written."""

from collections.abc import Callable
from dataclasses import dataclass

MAX_NAME = 256  # letters of a call's name: those that a message may give back
# an answer's text to its plain text and its calls
Read = Callable[[str], tuple[str, "list[ParsedCall]"]]


@dataclass(frozen=True)
class ParsedCall:
    """One call as the model wrote it; ``arguments`` is JSON text of an object, ``id`` one that the
    model gave it.
    """

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True)
class CallPiece:
    """More of call number ``index``: its name and an id that the model gave it, in the first piece
    only, and a piece of its arguments' JSON text.
    """

    index: int
    name: str | None
    arguments: str
    id: str | None = None


def joined(pieces: list[CallPiece]) -> list[CallPiece]:
    """``pieces`` in their order as one of each call at most."""
    found: dict[int, CallPiece] = {}
    for piece in pieces:
        first = found.get(piece.index, CallPiece(piece.index, piece.name, "", piece.id))
        found[piece.index] = CallPiece(
            first.index, first.name, first.arguments + piece.arguments, first.id
        )
    return list(found.values())


def read_calls(
    text: str, marker: str, end: str, read: Callable[[str], tuple[ParsedCall, int] | None]
) -> tuple[str, list[ParsedCall]]:
    """The plain text before the first ``marker`` and the calls, each after a marker and before an
    ``end``, which the last may lack; all of it is plain text where anything else stands there.
    ``read`` finds a call and where it ends.
    """
    before, found, rest = text.partition(marker)
    calls: list[ParsedCall] = []
    while found:
        if (call := read(rest)) is None:
            return text, []
        calls.append(call[0])
        rest = rest[call[1] :].lstrip().removeprefix(end).strip()
        found = marker if rest else ""
        if not rest.startswith(found):
            return text, []
        rest = rest.removeprefix(found)
    return (before.rstrip(), calls) if calls else (text, [])


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``mark``."""
    return next(
        (n for n in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:n])), 0
    )
