"""Base models that an operator brings: copied, hashed, loaded once, and nothing partial is left."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from console.catalogue.base_models import base_model_list, base_model_resolve
from console.object_store import client as object_store
from console.operations import model_adding
from support.hub_server import TOKEN, Hub, running_hub
from support.safetensors_bytes import safetensors_bytes

SHOWN = {"parameters": 7, "context_length": 64, "tools": True, "thoughts": False}


@pytest.fixture
def source(tmp_path: Path, settings, monkeypatch) -> Iterator[Path]:
    """A folder with the files of a model, for a check that takes any: test_load_check.py has the
    real one.
    """
    monkeypatch.setattr(model_adding, "_load", lambda folder: SHOWN)
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / ".cache").mkdir()
    for name in ("config.json", "tokenizer_config.json", "sub/model.safetensors", ".cache/lock"):
        (folder / name).write_text(f"the text of {name}")
    (folder / "config.json").write_text('{"max_position_embeddings": 64}')
    yield folder
    for name in ("mine", "stored", "other"):
        shutil.rmtree(settings.DATA / "models" / name, ignore_errors=True)


def left(settings) -> list[str]:
    return sorted(path.name for path in (settings.DATA / "models").iterdir() if "mine" in path.name)


def test_a_folder_is_copied_hashed_and_listed(source: Path, settings, capsys) -> None:
    call_command("add_model", "mine", str(source))
    assert "mine: 3 files, 7 weights" in capsys.readouterr().out
    folder = settings.DATA / "models" / "mine"
    record = json.loads((folder / "base_model.json").read_text())
    assert set(record["files"]) == {"config.json", "tokenizer_config.json", "sub/model.safetensors"}
    for name, sha256 in record["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    assert base_model_resolve("mine").path == str(folder)
    (view,) = [each for each in base_model_list() if each.name == "mine"]
    assert (view.parameters, view.context_length) == (7, 64)
    assert (view.tools, view.thoughts, view.images) == (True, False, False)
    with pytest.raises(CommandError, match="already"):
        call_command("add_model", "mine", str(source))


@pytest.mark.parametrize("name", ["../mine", "a/b", "", ".hidden", "x" * 101])
def test_a_name_that_is_none_is_refused(name: str, source: Path) -> None:
    with pytest.raises(CommandError, match="no name of a model"):
        call_command("add_model", name, str(source))


def test_what_is_no_model_leaves_nothing(source: Path, settings, monkeypatch) -> None:
    for bad in ("/no/such/folder", "relative", "org/model-without-hf"):
        with pytest.raises(CommandError, match="neither"):
            call_command("add_model", "mine", bad)

    def refuse(folder: Path) -> dict:
        raise model_adding.ModelRefused("it does not load: a weight is missing")

    monkeypatch.setattr(model_adding, "_load", refuse)
    with pytest.raises(CommandError, match="a weight is missing"):
        call_command("add_model", "mine", str(source))
    (source / "config.json").write_text('{"vocab_size": 4, "eos_token_id": 4}')
    with pytest.raises(CommandError, match=r"config\.json has eos_token_id 4.* vocab_size is 4"):
        call_command("add_model", "mine", str(source))
    (source / "config.json").unlink()
    with pytest.raises(CommandError, match=r"no config\.json"):
        call_command("add_model", "mine", str(source))
    assert left(settings) == []


def test_a_prefix_of_the_bucket_is_fetched(source: Path, settings, monkeypatch, s3) -> None:
    for path in (path for path in source.rglob("*") if path.is_file()):
        object_store.put(f"base/mine/{path.relative_to(source)}", path.read_bytes())
    call_command("add_model", "stored", "s3://base/mine")
    assert (settings.DATA / "models" / "stored" / "sub" / "model.safetensors").is_file()
    with pytest.raises(CommandError, match="nothing under"):
        call_command("add_model", "other", "s3://base/none")


# -- From a server of the Hugging Face Hub's API -----------------------------------------------------------------------

REPOSITORY = "lab/base"


@pytest.fixture
def hub(source: Path, monkeypatch, tmp_path: Path) -> Iterator[Hub]:
    """It has the model, and beside it what no base model is made of."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    names = (
        "config.json",
        "tokenizer_config.json",
        "model.safetensors",
        "pytorch_model.bin",
        "onnx/model.json",
        "run.py",
    )
    with running_hub() as hub:
        # as HF_ENDPOINT does at its import
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
        template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        hub.repositories[REPOSITORY] = {name: f"the text of {name}".encode() for name in names}
        hub.repositories[REPOSITORY]["config.json"] = (
            b'{"model_type": "qwen3", "max_position_embeddings": 64}'
        )
        hub.repositories[REPOSITORY]["model.safetensors"] = safetensors_bytes({"w": [1]})
        hub.private[REPOSITORY] = True
        yield hub


@pytest.mark.parametrize("named", ["@{commit}", "@main", ""], ids=["commit", "branch", "none"])
def test_a_model_of_the_hub_is_fetched_at_its_commit(
    hub: Hub, settings, capsys, named: str
) -> None:
    """The Hub of the test has each file at its commit alone: a branch may go on meanwhile."""
    commit = hub.revision(REPOSITORY)
    call_command("add_model", "mine", f"hf://{REPOSITORY}{named.format(commit=commit)}")
    told = capsys.readouterr().err
    before, _, after = told.partition("0.00 GB to fetch; ")
    assert "fetching config.json" in before and "fetching model.safetensors" in after
    assert "billion weights" in after and "GB with adapters; proven: " in after
    folder = settings.DATA / "models" / "mine"
    record = json.loads((folder / "base_model.json").read_text())
    assert record["source"] == f"hf://{REPOSITORY}@{commit}"
    assert set(record["files"]) == {"config.json", "tokenizer_config.json", "model.safetensors"}
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*record["files"], "base_model.json"]
    )
    assert (folder / "model.safetensors").read_bytes() == hub.repositories[REPOSITORY][
        "model.safetensors"
    ]


def test_what_the_hub_does_not_give_is_said_with_what_to_do_and_leaves_nothing(
    hub: Hub, settings, monkeypatch, capsys
) -> None:
    kept = hub.repositories[REPOSITORY]["config.json"]
    hub.repositories[REPOSITORY]["config.json"] = (
        b'{"quantization_config": {"quant_method": "awq"}}'
    )
    with pytest.raises(
        CommandError, match=r"quantization_config is awq.*\(nothing more was fetched"
    ):
        call_command("add_model", "mine", f"hf://{REPOSITORY}")
    assert "safetensors" not in capsys.readouterr().err
    hub.repositories[REPOSITORY]["config.json"] = kept
    hub.gated.add(REPOSITORY)
    with pytest.raises(CommandError, match="is gated.*HF_TOKEN"):
        call_command("add_model", "mine", f"hf://{REPOSITORY}")
    hub.gated.clear()
    for source, why in {
        "hf://lab/other": "lab/other",
        f"hf://{REPOSITORY}@none": REPOSITORY,
        "hf://no-owner": "does not read",
        "hf://a b/c": "not fetched",
    }.items():
        with pytest.raises(CommandError, match=why):
            call_command("add_model", "mine", source)
    hub.repositories["lab/empty"], hub.private["lab/empty"] = {"README.rst": b"nothing"}, False
    with pytest.raises(CommandError, match="no file of a model"):
        call_command("add_model", "mine", "hf://lab/empty")
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    with pytest.raises(CommandError, match="HF_TOKEN"):
        call_command("add_model", "mine", f"hf://{REPOSITORY}")
    assert left(settings) == []
