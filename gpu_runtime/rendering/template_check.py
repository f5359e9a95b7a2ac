"""Which chat templates are refused before a session is ready: those whose answers cannot be trained or read."""

from pathlib import Path

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.rendering.renderer import Renderer


def template_verify(renderer: Renderer, model: str) -> None:
    """Raises ModelUnsupported for a template whose answers do not end with a special token, or have some inside."""
    if renderer.has_template and not any(map(renderer.is_special, renderer.encode(renderer.end_of_turn))):
        raise ModelUnsupported(
            f"the chat template of {Path(model).name} writes {renderer.end_of_turn!r} after an answer, which holds no"
            " special token: a model cannot learn where its turn ends; add one to the template and to the tokenizer"
        )
    if marks := renderer.special_marks():
        raise ModelUnsupported(
            f"the chat template of {Path(model).name} marks channels inside an answer with special tokens"
            f" ({', '.join(marks)}), which this version does not read: thoughts would be taken for the answer"
        )
