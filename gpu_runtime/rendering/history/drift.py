"""Why a call that continues another has a timeline of its own: the first line that differs, and
what changed it."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from gpu_runtime.rendering.conversation import ReusablePrefix
from gpu_runtime.rendering.renderer import Renderer

Cause = Literal["client", "template", "gateway"]
MAX_SHOWN = 160  # tokens, and characters of a line, that are shown on each side of the difference


@dataclass(frozen=True)
class Departure:
    """A request continues ``source`` up to its message number ``message``, and why not further."""

    source: ReusablePrefix
    message: int
    cause: Cause
    reason: str


def explain(
    renderer: Renderer, departure: Departure, prompt_ids: tuple[int, ...]
) -> dict[str, Any] | None:
    """The drift point of the call that reads ``prompt_ids``; None if they hold the source's tokens
    all the same."""
    source = departure.source
    seen = source.prompt_ids + source.answer.token_ids_T
    token = next(
        (i for i, (a, b) in enumerate(zip(seen, prompt_ids, strict=False)) if a != b),
        len(prompt_ids),
    )
    if token >= len(seen) or prompt_ids[: len(seen)] == seen:
        return None
    saw, renders = _first_difference(*(_around(renderer, ids, token) for ids in (seen, prompt_ids)))
    return {
        "continues": source.call_id,
        "message": departure.message,
        "token": token,
        "cause": departure.cause,
        "reason": departure.reason,
        "saw": saw,
        "renders": renders,
    }


def _around(renderer: Renderer, ids: tuple[int, ...], token: int) -> list[str]:
    """The lines from that on in which ``token`` of ``ids`` stands."""
    before = renderer.decode(ids[max(0, token - MAX_SHOWN) : token], special=True).rpartition("\n")[
        2
    ]
    after = renderer.decode(ids[token : token + MAX_SHOWN], special=True)
    return f"{before[-MAX_SHOWN:]}{after}".split("\n")


def _first_difference(saw: list[str], renders: list[str]) -> tuple[str, str]:
    """The first lines that differ; a token may differ by the line's end alone."""
    pairs = zip_longest(saw, renders, fillvalue="")
    one, other = next(((a, b) for a, b in pairs if a != b), (saw[0], renders[0]))
    return one[: 2 * MAX_SHOWN], other[: 2 * MAX_SHOWN]
