"""The client's wheel from the server: what pip installs from there is this server's own client."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from console.operations import client_wheel
from console.operations.client_wheel import WHEEL_NAME
from tinkerscript.wire.version import VERSION


@pytest.mark.smoke
def test_a_stranger_gets_the_client_and_nothing_else_of_the_server(client: Client) -> None:
    answer = client.get(f"/client/{WHEEL_NAME}")
    assert answer.status_code == 200
    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "tinkerscript",
        f"tinkerscript-{VERSION}.dist-info",
    }
    assert client.get("/client/tinkerscript.whl")["Location"] == f"/client/{WHEEL_NAME}"
    for absent in ("tinkerscript-9.9.9-py3-none-any.whl", "settings.py"):
        refused = client.get(f"/client/{absent}")
        assert (refused.status_code, WHEEL_NAME in refused.json()["error"]["hint"]) == (404, True)


@pytest.mark.system
def test_it_has_the_consoles_pages_where_they_were_built(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "sdk/wheel_pages.py",
        "sdk/tinkerscript/__init__.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((root / name).read_text())
    version = tmp_path / "sdk/tinkerscript/wire/version.py"
    version.parent.mkdir()
    version.write_text((root / "sdk/tinkerscript/wire/version.py").read_text())
    assert pages_of(tmp_path) == []
    built = tmp_path / "frontend/dist"
    (built / "assets").mkdir(parents=True)
    for name in ("index.html", "index.html.br", "assets/app-1.js", "assets/app-1.js.gz"):
        (built / name).write_text("page")
    assert pages_of(tmp_path) == ["assets/app-1.js", "index.html"]


def pages_of(folder: Path) -> list[str]:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    names = zipfile.ZipFile(folder / "out" / WHEEL_NAME).namelist()
    return sorted(name.partition("viewer/pages/")[2] for name in names if "viewer/pages/" in name)


@pytest.mark.system
def test_it_is_built_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get(f"/client/{WHEEL_NAME}").content
    monkeypatch.setattr(client_wheel, "_build", lambda: pytest.fail("built again"))
    assert client.get(f"/client/{WHEEL_NAME}").content == first


@pytest.mark.system
def test_a_server_that_cannot_build_it_says_what_to_do(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings, tmp_path: Path
) -> None:
    monkeypatch.setattr(client_wheel, "_built", [])
    settings.BASE_DIR = tmp_path
    answer = client.get(f"/client/{WHEEL_NAME}")
    assert answer.status_code == 503
    assert "pip install ." in answer.json()["error"]["hint"]


@pytest.mark.system
def test_pip_installs_it_from_its_address(live_server: LiveServer, tmp_path: Path) -> None:
    address = f"{live_server.url}/client/{WHEEL_NAME}"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path),
    ]
    subprocess.run(
        [*pip, f"tinkerscript[openai] @ {address}"], check=True, capture_output=True, timeout=120
    )
    code = "import tinkerscript; print(tinkerscript.__file__, tinkerscript.__version__)"
    run = [sys.executable, "-c", code]
    said = subprocess.run(
        run,
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.stdout.split() == [str(tmp_path / "tinkerscript" / "__init__.py"), VERSION]
