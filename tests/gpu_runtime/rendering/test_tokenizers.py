"""The tokenizer of the tests writes and reads what transformers' does, for every family of chat
templates in them.
"""

import json
from datetime import datetime
from pathlib import Path

import jinja2
import pytest

pytest.importorskip(
    "transformers", reason="transformers is not installed: it needs the full set-up, `make test`"
)

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.loading.tokenizer import tokenizer_load
from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import TEMPLATES, build_tokenizer

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Über <cities> & 'towns'",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = {
    "id": "abcde1234",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Zürich"}},
}
ASKED = {"role": "user", "content": "  What is <b>2 + 2</b>?\n"}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "abcde1234", "content": '{"celsius": 12}'}
SAID = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nfour "}
DAY = datetime(2031, 2, 3, 4, 5, 6)
CONVERSATIONS = [
    ([ASKED], []),
    ([ASKED], [TOOL]),
    ([{"role": "system", "content": "be terse"}, ASKED, SAID, ASKED], []),
    ([ASKED, CALLED, RESULT], [TOOL]),
    ([ASKED, CALLED, RESULT, SAID, ASKED, SAID], [TOOL]),
    ([{"role": "judge", "content": "?"}], []),
]
TEXTS = [
    "",
    "hello",
    " Zürich \u200b\U0001f600",
    "<|im_start|>user\nhi<|im_end|>",
    "[TOOL_CALLS] [",
    "a" * 300,
    "\x00\n",
]


def written(tokenizer, messages, tools, generation):
    variables = dict.fromkeys(tokenizer.template_variables, False)
    try:
        return tokenizer.render(
            messages, tools, generation=generation, variables=variables, now=DAY
        )
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("family", [*TEMPLATES, "llama3_2"])
def test_the_light_tokenizer_is_transformers_own(tmp_path: Path, family: str) -> None:
    folder = build_tokenizer(tmp_path, family)
    light, real = LightTokenizer(folder), TransformersTokenizer(str(folder))
    for name in ("size", "longest_token", "special_ids", "template_variables", "described"):
        assert getattr(light, name) == getattr(real, name), name
    for messages, tools in CONVERSATIONS:
        for generation in (False, True):
            assert written(light, messages, tools, generation) == written(
                real, messages, tools, generation
            )
    for text in TEXTS:
        for special in (False, True):
            assert light.encode(text, special=special) == real.encode(text, special=special)
            assert light.decode(light.encode(text), special=special) == real.decode(
                light.encode(text), special=special
            )
    every = range(light.size)
    assert [light.decode([token], special=True) for token in every] == [
        real.decode([t], special=True) for t in every
    ]


def test_a_tokenizer_with_more_ids_than_the_head_as_both_are_loaded_is_refused(
    tmp_path: Path,
) -> None:
    folder = build_tokenizer(tmp_path, "chatml")
    largest = TransformersTokenizer(str(folder)).largest_id
    (folder / "config.json").write_text(
        json.dumps({"model_type": "llama", "vocab_size": largest + 1})
    )
    assert tokenizer_load(str(folder)).size == largest + 1
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": largest}))
    with pytest.raises(ModelUnsupported, match=f"vocab_size is {largest}"):
        tokenizer_load(str(folder))


def test_ids_of_the_head_that_the_tokenizer_has_not_can_be_sent_back(tmp_path: Path) -> None:
    """The engine samples any id of the head, which many models have larger than their tokenizer."""
    folder = build_tokenizer(tmp_path, "chatml")
    largest = TransformersTokenizer(str(folder)).largest_id
    (folder / "config.json").write_text(
        json.dumps({"model_type": "llama", "vocab_size": largest + 100})
    )
    tokenizer = tokenizer_load(str(folder))
    assert tokenizer.size == largest + 100
    assert tokenizer.entry(largest + 50) == tokenizer.decode([largest + 50], special=True) == ""
