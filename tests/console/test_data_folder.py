"""DATA is closed to every other user of the machine, also where an installer left it open."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.config import data_folder
from console.config.data_folder import compiled_prune, data_files_close, data_folder_open
from support.another_user import NOBODY, readable_copy, require_root, run_as_nobody

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def umask_kept():
    kept = os.umask(0o022)
    yield
    os.umask(kept)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


TENANTS = (
    "console.sqlite3",
    "server.log",
    "s3/data/tinkerscript_1.dat",
    "runtimes/ses_1/log",
    "mail/1",
    "logs/1",
)


def open_folder(parent: Path) -> Path:
    """As an installer left it."""
    data = parent / "data"
    for name in (*TENANTS, "models/small/model.safetensors"):
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("tenant")
    assert mode(data) == 0o755 and mode(data / "server.log") == 0o644
    return data


@pytest.mark.system
def test_every_command_closes_a_folder_that_was_open(tmp_path: Path) -> None:
    data = open_folder(tmp_path)
    environment = {"PATH": os.environ["PATH"], "TINKERSCRIPT_DATA": str(data)}
    code = "import os; print(oct(os.umask(0)))"
    checked = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v", "0", "-c", code],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert checked.stdout.strip() == "0o77", checked.stderr
    assert mode(data) == 0o700 and mode(data / "secret_key") == 0o600


def test_what_the_process_makes_after_it_is_its_users_alone(tmp_path: Path) -> None:
    data = open_folder(tmp_path)
    data_folder_open(data)
    (data / "made").write_text("later")
    (data / "folder").mkdir()
    assert [mode(path) for path in (data, data / "made", data / "folder")] == [0o700, 0o600, 0o700]


@pytest.mark.system
def test_another_user_lists_and_reads_nothing(tmp_path: Path) -> None:
    require_root()
    with readable_copy() as folder:
        data = open_folder(folder)
        assert run_as_nobody(["cat", data / "console.sqlite3"], cwd=folder).stdout == "tenant", (
            "it was open"
        )
        data_folder_open(data)
        for command in (
            ["ls", data],
            ["cat", data / "console.sqlite3"],
            ["cat", data / "server.log"],
        ):
            refused = run_as_nobody(command, cwd=folder)
            assert refused.returncode != 0 and "Permission denied" in refused.stdout


def test_files_that_others_could_read_are_closed_and_base_models_stay_as_they_are(
    tmp_path: Path,
) -> None:
    data = open_folder(tmp_path)
    (data / "link").symlink_to(ROOT / "README.md")
    before = mode(ROOT / "README.md")
    assert data_files_close(data) == len(TENANTS) + 6  # and their folders
    assert {name: mode(data / name) for name in TENANTS} == dict.fromkeys(TENANTS, 0o600)
    assert (
        mode(data / "s3/data") == 0o700 and mode(data / "models/small/model.safetensors") == 0o644
    )
    assert mode(ROOT / "README.md") == before and data_files_close(data) == 0


@pytest.mark.system
def test_a_folder_of_someone_else_that_is_open_is_refused_with_what_to_do(tmp_path: Path) -> None:
    require_root()
    script = """
import os, sys
from pathlib import Path
from console.config.data_folder import data_folder_open
os.setgroups([]); os.setgid(65534); os.setuid(65534)
data_folder_open(Path(sys.argv[1]), is_shared_volume=sys.argv[2] == "shared")
"""
    with readable_copy() as folder:
        (folder / "data").mkdir()

        def opened(kind: str) -> subprocess.CompletedProcess[str]:
            program = [sys.executable, "-c", script, str(folder / "data"), kind]
            return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)

        refused = opened("own")
        assert "ImproperlyConfigured" in refused.stderr, refused.stderr
        for words in (
            str(folder / "data"),
            "mode 755",
            "belongs to user 0",
            f"runs as {NOBODY}",
            "chmod 700",
        ):
            assert words in refused.stderr
        assert opened("shared").returncode == 0


def test_a_file_system_without_permissions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = open_folder(tmp_path)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # as FAT and some network file systems do
    with pytest.raises(ImproperlyConfigured, match="keeps no permissions"):
        data_folder_open(data)


def test_what_was_compiled_is_removed_once_it_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "MOST_COMPILED_BYTES", 9)
    assert not compiled_prune(tmp_path), "there is none"
    (tmp_path / "compiled" / "ab").mkdir(parents=True)
    (tmp_path / "compiled" / "ab" / "kernel.so").write_bytes(b"123456789")
    assert not compiled_prune(tmp_path)
    (tmp_path / "compiled" / "kernel.cpp").write_bytes(b"0")
    assert compiled_prune(tmp_path) and not (tmp_path / "compiled").exists()
