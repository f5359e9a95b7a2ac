"""What a base has beside its weights leaves as it came, whatever transformers thinks of it."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from gpu_runtime.training.models.export import hugging_face_export
from support.tiny_model import tiny_model_make

ODD = [
    '{"do_sample": false, "temperature": 0.000001, "top_p": 0.8}',
    '{"temperature": 0.6}',
    '{"do_sample": false, "top_k": 20, "num_beams": 1, "early_stopping": true}',
    '{ "eos_token_id": [2, 3],\n\t"unknown_field": 1 }\n',
]


def exported(base: Path, folder: Path) -> Path:
    model = AutoModelForCausalLM.from_pretrained(base)
    hugging_face_export(model, dict(model.state_dict()), str(base), folder)
    return folder


@pytest.mark.parametrize("generation", ODD)
def test_a_generation_config_leaves_as_it_came(generation: str, tmp_path: Path) -> None:
    base = tiny_model_make(tmp_path / "base")
    (base / "generation_config.json").write_text(generation)
    folder = exported(base, tmp_path / "export")
    assert (folder / "generation_config.json").read_text() == generation
    AutoModelForCausalLM.from_pretrained(folder)


def test_tokenizer_and_template_files_leave_byte_for_byte(tmp_path: Path) -> None:
    base = tiny_model_make(tmp_path / "base")
    config = json.loads((base / "tokenizer_config.json").read_text())
    (base / "tokenizer_config.json").write_text(json.dumps(config | {"theirs": 1}, indent=7))
    (base / "additional_chat_templates").mkdir()
    (base / "additional_chat_templates" / "rag.jinja").write_text("{{ messages }}")
    (base / "special_tokens_map.json").write_text("{ }")
    (base / "tokenizer_old").mkdir()  # a folder that has a file's name
    (base / "tokenizer_old" / "other").write_text("")
    folder = exported(base, tmp_path / "export")
    names = [path for path in base.rglob("*") if path.is_file() and path.suffix != ".safetensors"]
    kept = [path for path in names if path.name not in ("config.json", "other")]
    assert len(kept) > 3
    for path in kept:
        assert (folder / path.relative_to(base)).read_bytes() == path.read_bytes(), path
    AutoTokenizer.from_pretrained(folder)


def test_sampling_options_in_config_json_do_not_stop_an_export(tmp_path: Path) -> None:
    base = tiny_model_make(tmp_path / "base")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(
        json.dumps(config | {"temperature": 0.6, "do_sample": False, "max_length": 64})
    )
    folder = exported(base, tmp_path / "export")
    AutoModelForCausalLM.from_pretrained(folder)
