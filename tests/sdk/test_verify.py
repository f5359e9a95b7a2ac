"""``tinkerscript verify``: a model's folder is compared with the record of what was trained."""

import json
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model without weights, and its record; transformers is not there."""
    model = build_tokenizer(tmp_path / "model", "chatml")
    (model / "config.json").write_text(json.dumps(CONFIG))
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


def test_a_folder_without_the_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=NAME):
        folder_verify(tmp_path)
