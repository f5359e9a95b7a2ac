"""A folder whose parts do not fit one another is refused by the file and the field, from headers
alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import folder_refusal

CONFIG = {
    "architectures": ["X"], "vocab_size": 10, "hidden_size": 4, "num_hidden_layers": 2,
    "tie_word_embeddings": False, "eos_token_id": 9,
}  # fmt: skip
WEIGHTS = {
    "model.embed_tokens.weight": [10, 4], "lm_head.weight": [10, 4],
    "model.layers.0.mlp.weight": [4, 4], "model.layers.1.mlp.weight": [4, 4],
}  # fmt: skip
TOWER = {"model.visual.patch_embed.weight": [4, 4]}


def refusal_of(
    folder: Path, changes: dict[str, Any], weights: dict[str, list[int] | None], **generation: Any
) -> str:
    kept = {name: shape for name, shape in (WEIGHTS | weights).items() if shape is not None}
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(kept))
    return folder_refusal(folder, SessionConfig()) or ""


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({}, {}),
        ({"tie_word_embeddings": True}, {"lm_head.weight": None}),
        ({"num_nextn_predict_layers": 1}, {"model.layers.2.mlp.weight": [4, 4]}),
        ({}, {"mtp.layers.0.mlp.weight": [4, 4]}),
        ({"vision_config": {"depth": 1}}, TOWER),
        ({"audio_config": None}, {}),
        ({"word_embed_proj_dim": 3}, {"model.embed_tokens.weight": [10, 3]}),
        ({"eos_token_id": [8, 9], "pad_token_id": -1}, {}),
    ],
)
def test_parts_that_fit_are_not_refused(
    tmp_path: Path, changes: dict[str, Any], weights: dict[str, list[int] | None]
) -> None:
    assert refusal_of(tmp_path, changes, weights) == ""


@pytest.mark.parametrize(
    ("changes", "weights", "words"),
    [
        ({"vocab_size": 11}, {}, ["vocab_size 11", "model.safetensors", "embed_tokens", "10 tok"]),
        ({}, {"lm_head.weight": [12, 4]}, ["vocab_size 10", "lm_head.weight of 12 tokens"]),
        ({"hidden_size": 8}, {}, ["hidden_size 8", "embed_tokens.weight of shape [10, 4]"]),
        ({}, {"lm_head.weight": None}, ["config.json", "tie_word_embeddings false", "lm_head"]),
        ({"num_hidden_layers": 3}, {}, ["num_hidden_layers 3", "layer 2"]),
        ({"num_hidden_layers": 1}, {}, ["num_hidden_layers 1", "model.safetensors has layer 1"]),
        ({}, {"model.layers.0.mlp.weight": None}, ["num_hidden_layers 2", "layer 0"]),
        ({"vision_config": {"depth": 1}}, {}, ["config.json has vision_config", "tower"]),
        ({"audio_config": {"depth": 1}}, TOWER, ["audio_config"]),
        ({}, TOWER, ["model.safetensors has model.visual", "no vision_config"]),
        ({"eos_token_id": 10}, {}, ["config.json has eos_token_id 10", "end at 9"]),
        ({"pad_token_id": 10}, {}, ["config.json has pad_token_id 10"]),
    ],
)
def test_parts_that_do_not_fit_are_named(
    tmp_path: Path,
    changes: dict[str, Any],
    weights: dict[str, list[int] | None],
    words: list[str],
) -> None:
    refusal = refusal_of(tmp_path, changes, weights)
    assert refusal.startswith("X is not trained here: ")
    assert all(word in refusal for word in words), refusal


def test_an_end_of_turn_that_the_head_does_not_have_is_named(tmp_path: Path) -> None:
    refusal = refusal_of(tmp_path, {}, {}, eos_token_id=[1, 10])
    assert "generation_config.json has eos_token_id 10" in refusal


def test_the_text_part_of_a_configuration_is_compared(tmp_path: Path) -> None:
    text = {"text_config": {"vocab_size": 12}, "vision_config": {"depth": 1}}
    assert "vocab_size 12" in refusal_of(tmp_path, text, TOWER)


@pytest.mark.parametrize("field", ["vision_config", "audio_config", "quantization_config"])
def test_a_tower_or_packed_weights_in_the_older_form_are_refused_by_file_and_field(
    tmp_path: Path, field: str
) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    for changes, words in (({}, None), ({field: {"quant_method": "fp8"}}, field)):
        (tmp_path / "config.json").write_text(json.dumps(CONFIG | changes))
        found = folder_refusal(tmp_path, SessionConfig())
        assert (found is None) == (words is None)
    assert found is not None and f"has {field}, and pytorch_model.bin has its weights" in found
