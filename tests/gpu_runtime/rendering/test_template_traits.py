"""What a chat template is asked when its traits are read: each variant of a request costs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.rendering.renderer import Renderer
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer


class Asked(LightTokenizer):
    """Keeps what it is given to render."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[str] = []

    def render(self, messages: Any, tools: Any, *, generation: bool, **rest: Any) -> str:
        self.asked.append(json.dumps([messages, tools, generation]))
        return super().render(messages, tools, generation=generation, **rest)


@pytest.mark.parametrize("family", ["chatml", "smollm3", "gemma4_v5", "gptoss", "mistral"])
def test_no_probe_is_rendered_twice(tmp_path: Path, family: str) -> None:
    """Mistral's template refuses some probes: no other render looks for the place of the fault."""
    tokenizer = Asked(build_tokenizer(tmp_path, family))
    renderer = Renderer(tokenizer)
    assert renderer.traits.has_template and tokenizer.asked
    assert sorted(tokenizer.asked) == sorted(set(tokenizer.asked))


def test_the_second_request_under_the_same_variables_renders_no_probe(tmp_path: Path) -> None:
    tokenizer = Asked(build_tokenizer(tmp_path, "opens_thoughts"))
    renderer = Renderer(tokenizer)
    first = renderer.with_variables({"enable_thinking": False})
    count = len(tokenizer.asked)
    second = renderer.with_variables({"enable_thinking": False})
    assert (first.traits, len(tokenizer.asked)) == (second.traits, count)
    assert first.thoughts != renderer.thoughts
