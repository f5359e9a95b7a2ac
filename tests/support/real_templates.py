"""The chat templates that real model families have, from a package that ships them (``requirements/templates.txt``)."""

from importlib.util import find_spec
from pathlib import Path

# Family -> the mark that ends an assistant's turn.
REAL_TEMPLATES = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "llama3_2": "<|eot_id|>",
    "gemma3": "<end_of_turn>",
    "deepseek_r1_distill": "<｜end▁of▁sentence｜>",
    "gptoss": "<|return|>",
}


def real_template(family: str) -> tuple[str, str]:
    """The template and the end of turn of one of ``REAL_TEMPLATES``."""
    package = find_spec("trl")
    assert package is not None and package.submodule_search_locations, "requirements/templates.txt is not installed"
    folder = Path(next(iter(package.submodule_search_locations))) / "chat_templates"
    return (folder / f"{family}.jinja").read_text(), REAL_TEMPLATES[family]
