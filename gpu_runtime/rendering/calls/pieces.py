"""What is read of a tool call: whole, or piece by piece while it is written."""

from collections.abc import Callable
from dataclasses import dataclass

Read = Callable[[str], tuple[str, "list[ParsedCall]"]]  # an answer's text to its plain text and its calls


@dataclass(frozen=True)
class ParsedCall:
    """One call as the model wrote it; ``arguments`` is JSON text of an object, ``id`` one that the model gave it."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True)
class CallPiece:
    """More of call number ``index``: its name and an id that the model gave it, in the first piece only, and a piece of
    its arguments' JSON text."""

    index: int
    name: str | None
    arguments: str
    id: str | None = None


def joined(pieces: list[CallPiece]) -> list[CallPiece]:
    """``pieces`` in their order as one of each call at most."""
    found: dict[int, CallPiece] = {}
    for piece in pieces:
        first = found.get(piece.index, CallPiece(piece.index, piece.name, "", piece.id))
        found[piece.index] = CallPiece(first.index, first.name, first.arguments + piece.arguments, first.id)
    return list(found.values())
