"""Why a call that continues another has a timeline of its own: the first token that differs, and what changed it."""

from dataclasses import dataclass
from typing import Any, Literal

from gpu_runtime.rendering.conversation import ReusablePrefix
from gpu_runtime.rendering.renderer import Renderer

Cause = Literal["client", "template", "gateway"]
CHANGED = "the client sent this message in another way than it was"
BEFORE, AFTER = 8, 24  # tokens around the difference that are shown


@dataclass(frozen=True)
class Departure:
    """A request continues ``source`` up to its message number ``message``, and why not further."""

    source: ReusablePrefix
    message: int
    cause: Cause
    reason: str


def explain(renderer: Renderer, departure: Departure, prompt_ids: tuple[int, ...]) -> dict[str, Any] | None:
    """The drift point of the call that reads ``prompt_ids``; None if they hold the source's tokens all the same."""
    source = departure.source
    seen = source.prompt_ids + source.answer.token_ids_T
    token = next((i for i, (a, b) in enumerate(zip(seen, prompt_ids, strict=False)) if a != b), len(prompt_ids))
    if token >= len(seen) or prompt_ids[: len(seen)] == seen:
        return None
    shown = slice(max(0, token - BEFORE), token + AFTER)
    return {
        "continues": source.call_id,
        "message": departure.message,
        "token": token,
        "cause": departure.cause,
        "reason": departure.reason,
        "saw": renderer.decode(seen[shown], special=True),
        "renders": renderer.decode(prompt_ids[shown], special=True),
    }
