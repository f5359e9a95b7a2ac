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
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"__metadata__": {"format": "pt"}, tensor: entry}).encode()
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


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "it is missing"),
        (lambda path: path.write_bytes(b""), "no whole header"),
        (lambda path: path.write_bytes(shard("second")[:20]), "no whole header"),
        (lambda path: path.write_bytes(shard("second")[:-3]), "are whole"),
        (lambda path: path.write_bytes(shard("second") + b"x"), "are whole"),
        (lambda path: path.write_bytes((2).to_bytes(8, "little") + b"[]"), "header is damaged"),
        (lambda path: path.write_bytes((2).to_bytes(8, "little") + b"{{"), "header is damaged"),
    ],
)
def test_a_file_of_weights_that_is_missing_or_cut_is_named(
    folder: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder / "model-2.safetensors")
    assert problems(folder) == ["file model-2.safetensors"]
    ran = CliRunner().invoke(app, ["verify", str(folder)])
    assert ran.exit_code == 1 and said in ran.stdout


def test_a_model_in_one_file_has_that_file(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()
    assert problems(folder) == ["file model.safetensors"]
    (folder / "model.safetensors").write_bytes(shard("first"))
    assert problems(folder) == []


def test_a_tokenizer_that_a_library_cannot_read_is_named_in_words(folder: Path) -> None:
    for text in ("{", '{"version": "1.0"}'):
        (folder / "tokenizer.json").write_text(text)
        ran = CliRunner().invoke(app, ["verify", str(folder)])
        assert ran.exit_code == 1 and isinstance(ran.exception, SystemExit)
        assert "file tokenizer.json" in ran.stdout and "it cannot read the folder" in ran.stdout


def test_a_folder_without_the_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=NAME):
        folder_verify(tmp_path)
