"""Weights that are cut off or missing are named before anything is started."""

import json
from pathlib import Path

import pytest

from support.safetensors_bytes import safetensors_bytes
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import folder_refusal
from tinkerscript.wire.training.models.weight_files import weights_damage


def test_whole_weights_pass(tmp_path: Path) -> None:
    assert weights_damage(tmp_path) is None, "what is not there says nothing"
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"a": [2]}))
    assert weights_damage(tmp_path) is None


@pytest.mark.parametrize("kept", [0, 3, 8, 20, -1])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, kept: int) -> None:
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"a": [2]})[:kept])
    assert "model.safetensors" in (folder_refusal(tmp_path, SessionConfig()) or "")


@pytest.mark.parametrize(
    "header", [b"{}x", b"[1]", b'{"a": 1}', b'{"a": {"data_offsets": [0]}}', b"\xff\xfe"]
)
def test_a_header_that_is_none_is_named(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert "model.safetensors is damaged" in (weights_damage(tmp_path) or "")


def test_a_shard_that_the_index_names_and_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "part-1.safetensors").write_bytes(safetensors_bytes({"a": [2]}))
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "names part-2.safetensors, which is not in the folder" in (
        weights_damage(tmp_path) or ""
    )
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": []}')
    assert "is damaged" in (weights_damage(tmp_path) or "")


def test_a_tensor_that_the_index_has_in_another_file_is_named(tmp_path: Path) -> None:
    for part, names in (("part-1", ["a"]), ("part-2", ["b"])):
        (tmp_path / f"{part}.safetensors").write_bytes(
            safetensors_bytes({name: [2] for name in names})
        )
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "part-1.safetensors", "b": "part-2.safetensors"}}')
    assert weights_damage(tmp_path) is None
    for other in ('"b": "part-1.safetensors"', '"c": "part-2.safetensors"'):
        index.write_text(
            '{"weight_map": {"a": "part-1.safetensors", "z": "part-2.safetensors", ' + other + "}}"
        )
        assert "weight_map has z in part-2.safetensors" in (weights_damage(tmp_path) or "")


def test_a_missing_shard_of_the_older_form_is_named(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "part-1.bin"}}')
    assert "names part-1.bin, which is not in the folder" in (weights_damage(tmp_path) or "")
