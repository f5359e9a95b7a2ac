"""A downloaded model goes to a server with the Hub's API: private, whole, once; what is in the way
is said.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.hub_server import TOKEN, Hub, running_hub
from tinkerscript.cli import app
from tinkerscript.errors import InvalidRequest, ServerUnreachable, TinkerScriptError
from tinkerscript.exporting.hub import folder_push

pytest.importorskip("huggingface_hub")
# How it sends a large file is what its own HTTP client warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
NAME = "my-team/my-model"
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights" * 1000,
    "README.md": b"---\nlicense: mit\n---\nA model.",
}


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of the environment, and none of this machine's."""
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A server with no repository."""
    with running_hub() as hub:
        yield hub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and what a download that did not end leaves beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in FILES.items() | {("half.partial", b"half"), (".state", b"hidden")}:
        (folder / name).write_bytes(content)
    return folder


def test_the_files_of_the_model_are_in_a_private_repository_and_sent_once(
    hub: Hub, folder: Path
) -> None:
    done = CliRunner().invoke(app, ["push", str(folder), NAME, "--endpoint", hub.address])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{hub.address}/{NAME}/commit/")
    assert (hub.repositories, hub.private) == ({NAME: FILES}, {NAME: True})
    (folder / "config.json").write_bytes(b'{"a": 1}')
    folder_push(folder, NAME, endpoint=hub.address)
    assert hub.repositories[NAME]["config.json"] == b'{"a": 1}'
    assert len(hub.put) == 1, "the weights were there"


def test_an_adapter_is_a_model_too_and_may_be_public(hub: Hub, folder: Path) -> None:
    (folder / "config.json").rename(folder / "adapter_config.json")
    folder_push(folder, NAME, endpoint=hub.address, is_public=True)
    assert "adapter_config.json" in hub.repositories[NAME]
    assert hub.private == {NAME: False}
    (folder / "more.json").write_text("{}")
    with pytest.raises(InvalidRequest, match="Everybody may read"):
        folder_push(folder, NAME, endpoint=hub.address)
    assert "more.json" not in hub.repositories[NAME]


def test_what_cannot_be_pushed_is_refused_before_anything_is_sent(
    hub: Hub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRequest, match="no config.json or adapter_config.json"):
        folder_push(tmp_path, NAME, endpoint=hub.address)
    with pytest.raises(InvalidRequest, match="no name of a repository"):
        folder_push(folder, "a/b/c", endpoint=hub.address)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(InvalidRequest, match="no token"):
        folder_push(folder, NAME, endpoint=hub.address)
    assert hub.repositories == {}


def test_a_refusal_and_a_broken_connection_have_words(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.cut = True
    with pytest.raises(ServerUnreachable, match="goes on"):
        folder_push(folder, NAME, endpoint=hub.address)
    assert hub.repositories == {NAME: {}}, "no commit of half a model"
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    with pytest.raises(TinkerScriptError, match="must be allowed to write") as refused:
        folder_push(folder, NAME, endpoint=hub.address)
    assert refused.value.status == 401
    with pytest.raises(ServerUnreachable):
        folder_push(folder, NAME, endpoint="http://127.0.0.1:9")


def test_a_server_that_sends_the_push_elsewhere_does_not_send_the_token_there(
    hub: Hub, folder: Path
) -> None:
    with running_hub() as elsewhere:
        hub.moved_to = elsewhere.address
        with pytest.raises(TinkerScriptError, match="must be allowed to write") as refused:
            folder_push(folder, NAME, endpoint=hub.address)
    assert refused.value.status == 401
    assert set(hub.tokens) == {f"Bearer {TOKEN}"} and set(elsewhere.tokens) == {None}
    assert elsewhere.repositories == {}
