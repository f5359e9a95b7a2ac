"""``tinkerscript verify``: a model's folder is compared with the record of what was trained."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer
from tinkerscript.cli import app
from tinkerscript.errors import InvalidRequest
from tinkerscript.exporting import verify
from tinkerscript.exporting.verify import folder_verify
from tinkerscript.wire.training.models.model_proof import NAME, TEXTS, digests, thetas

CONFIG = {
    "model_type": "llama",
    "dtype": "float32",
    "torch_dtype": "float32",
    "rope_theta": 500000.0,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
}


def shard(tensor: str) -> bytes:
    """A file of one tensor of two float32."""
    header = json.dumps({tensor: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of two tensors, and its record; transformers is not there."""
    model = build_tokenizer(tmp_path / "model", "chatml")
    (model / "config.json").write_text(json.dumps(CONFIG))
    shards = {"first": "model-1.safetensors", "second": "model-2.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    for tensor, name in shards.items():
        (model / name).write_bytes(shard(tensor))
    light = LightTokenizer(model)
    texts = [{"text": text, "ids": light.encode(text)} for text in TEXTS]
    proof = {"theta": thetas(CONFIG), "texts": texts, "files": digests(model)}
    (model / NAME).write_text(json.dumps(proof | {"conversation": {"messages": [], "text": None}}))
    found = verify.library
    monkeypatch.setattr(
        verify, "library", lambda name: None if name == "transformers" else found(name)
    )
    return model


def problems(folder: Path) -> list[str]:
    return [check.name for check in folder_verify(folder) if check.problem]


def test_a_folder_that_says_what_was_trained_passes(folder: Path) -> None:
    assert problems(folder) == [] and len(folder_verify(folder)) >= 8
    ran = CliRunner().invoke(app, ["verify", str(folder)])
    assert ran.exit_code == 0 and "as trained" in ran.stdout


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            {"rope_theta": 10000.0},
            ["config.json, rope_theta", "config.json, rope_theta beside rope_parameters"],
        ),
        ({"torch_dtype": None}, ["config.json, torch_dtype beside dtype"]),
    ],
)
def test_a_changed_configuration_is_named(
    folder: Path, change: dict[str, object], found: list[str]
) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | change))
    assert problems(folder) == found
    assert CliRunner().invoke(app, ["verify", str(folder)]).exit_code == 1


def test_a_changed_tokenizer_is_named(folder: Path) -> None:
    build_tokenizer(folder, "chatml", special=["hello"])
    assert {"file tokenizer.json", "file tokenizer_config.json"} < set(problems(folder))
    assert any("ids of text 0" in name for name in problems(folder))


def byte_flip(path: Path, place: int) -> None:
    """Another bit at ``place`` of the file."""
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("model-2.safetensors", lambda path: byte_flip(path, -3), "bytes are others"),
        ("model-2.safetensors", lambda path: byte_flip(path, 10), "bytes are others"),
        ("model-2.safetensors", lambda path: path.write_bytes(shard("second")[:-3]), "are others"),
        ("model-2.safetensors", lambda path: path.unlink(), "it is missing"),
        ("model.safetensors.index.json", lambda path: byte_flip(path, 20), "bytes are others"),
        ("model.safetensors.index.json", lambda path: path.unlink(), "it is missing"),
        ("model.safetensors", lambda path: path.write_bytes(shard("first")), "had no such file"),
        ("tokenizer.model", lambda path: path.write_bytes(b"x"), "had no such file"),
    ],
)
def test_a_file_with_another_byte_and_one_that_is_missing_or_new_are_named(
    folder: Path, name: str, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder / name)
    assert problems(folder) == [f"file {name}"]
    ran = CliRunner().invoke(app, ["verify", str(folder)])
    assert ran.exit_code == 1 and said in ran.stdout


def test_a_tokenizer_that_a_library_cannot_read_is_named_in_words(folder: Path) -> None:
    for text in ("{", '{"version": "1.0"}'):
        (folder / "tokenizer.json").write_text(text)
        ran = CliRunner().invoke(app, ["verify", str(folder)])
        assert ran.exit_code == 1 and isinstance(ran.exception, SystemExit)
        assert "file tokenizer.json" in ran.stdout and "it cannot read the folder" in ran.stdout


def test_a_folder_without_the_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=NAME):
        folder_verify(tmp_path)
