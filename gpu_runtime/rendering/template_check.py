"""Checks a chat template at start: refuses one whose answers cannot be trained or read, and reports
tools that it cannot use.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.wire.events import EventKind

HINT = (
    "Describe the tools in a message and send results as a user's text, or take another model: "
    "docs/models.md."
)


def template_verify(renderer: Renderer, model: str) -> None:
    """Raises ModelUnsupported for a template whose answers do not end with a special token, or have
    some inside.
    """
    traits = renderer.traits
    if traits.has_template and not any(
        map(renderer.is_special, renderer.encode(traits.end_of_turn))
    ):
        raise ModelUnsupported(
            f"the chat template of {Path(model).name} writes {traits.end_of_turn!r} after an "
            "answer, which holds no"
            " special token: a model cannot learn where its turn ends; add one to the template and "
            "to the tokenizer"
        )
    if marks := traits.special_marks:
        raise ModelUnsupported(
            f"the chat template of {Path(model).name} marks channels inside an answer with special "
            "tokens"
            f" ({', '.join(marks)}), which this version does not read: thoughts would be taken for "
            "the answer"
        )


def template_report(
    report: Callable[[EventKind, dict[str, Any], str], None], renderer: Renderer
) -> None:
    """Put an event into the session's record where the template describes tools that requests
    cannot use.
    """
    traits = renderer.traits
    if not traits.has_tools or (traits.tool_format is not None and traits.writes_results):
        return
    lost = (
        "leaves out what they return"
        if not traits.writes_results
        else "writes calls in an unknown form"
    )
    reason = (
        f"the model's chat template describes tools and {lost}: requests with tools are refused"
    )
    report(
        EventKind.EVENT,
        {"name": "tools_unusable", "reason": reason, "hint": HINT},
        "tools_unusable",
    )
