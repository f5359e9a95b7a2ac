"""A folder is a base model if it loads, has a chat template, and answers with numbers."""

from pathlib import Path

import pytest

from gpu_runtime.loading.load_check import LoadCheckError, load_check

pytestmark = pytest.mark.engine


def test_a_model_that_loads_is_measured_and_damage_is_named(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM

    from support.tiny_model import tiny_model_make

    folder = tiny_model_make(tmp_path / "model")
    found = load_check(folder)
    assert found["parameters"] > 0 and found["context_length"]
    assert found["tools"] is found["thoughts"] is False
    (folder / "chat_template.jinja").rename(tmp_path / "template")
    assert load_check(folder) == found
    (tmp_path / "template").rename(folder / "chat_template.jinja")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    model.save_pretrained(folder)
    with pytest.raises(LoadCheckError, match="not finite"):
        load_check(folder)
    (weights,) = folder.glob("*.safetensors")
    kept = load_file(weights)
    kept.pop("model.norm.weight")
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(LoadCheckError, match=r"lacks 1 weights, the first is model\.norm\.weight"):
        load_check(folder)
    weights.write_bytes(b"nothing")
    with pytest.raises(LoadCheckError, match="does not load"):
        load_check(folder)


def test_a_template_whose_answers_end_with_no_special_token_is_refused(tmp_path: Path) -> None:
    from support.tiny_model import tiny_model_make

    folder = tiny_model_make(tmp_path / "model")
    text = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '.' }}{% endfor %}"
    (folder / "chat_template.jinja").write_text(text)
    with pytest.raises(LoadCheckError, match="holds no special token"):
        load_check(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("generation_config.json", "[]"),
        ("generation_config.json", '{"watermarking_config": 3}'),
        ("tokenizer_config.json", "[]"),
        ("tokenizer.json", "[]"),
        ("config.json", "[]"),
        ("chat_template.jinja", "{% if %}"),
        ("chat_template.jinja", "{{ raise_exception('no') }}"),
    ],
)
def test_whatever_a_file_leads_the_libraries_to_is_the_folders_error(
    name: str, text: str, tmp_path: Path
) -> None:
    from support.tiny_model import tiny_model_make

    folder = tiny_model_make(tmp_path / "model")
    (folder / name).write_text(text)
    with pytest.raises(LoadCheckError, match="it does not"):
        load_check(folder)
