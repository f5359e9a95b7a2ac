"""What passes between the processes of a runtime, tried by another user: reading, replacing,
planting.
"""

import json
import os
import secrets
import shutil
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpu_runtime.processes.rendezvous import rendezvous_open
from gpu_runtime.weights.handover_folder import handover_folder
from gpu_runtime.weights.shared_memory import NAME, SharedMemoryExport
from support.another_user import readable_copy, require_root, run_as_nobody

pytestmark = pytest.mark.system

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def as_an_installer_has_it() -> Iterator[None]:
    """Root, of whom others may read what is not closed on purpose."""
    require_root()
    if not SHARED_MEMORY.is_dir():
        pytest.skip("this machine has no /dev/shm")
    kept = os.umask(0o022)
    yield
    os.umask(kept)


def refused(*commands: str) -> None:
    for command in commands:
        tried = run_as_nobody(["sh", "-c", command], cwd=Path("/"))
        assert tried.returncode != 0, f"{command}: {tried.stdout}"
        assert "ermission denied" in tried.stdout or "not permitted" in tried.stdout, (
            f"{command}: {tried.stdout}"
        )


@pytest.mark.smoke
def test_weights_in_memory_are_read_and_listed_by_no_other_user() -> None:
    weights = {"a": torch.arange(20.0)}
    with handover_folder(f"ses_{secrets.token_hex(4)}") as folder:
        assert SharedMemoryExport().export(weights, folder)
        memory = json.loads((folder / NAME).read_text())["a"]["path"]
        assert Path(memory).read_bytes()[4:8] == struct.pack("<f", 1.0), "its own user reads it"
        refused(
            f"cat {memory}",
            f"echo forged > {memory}",
            f"ls -l {Path(memory).parent}",
            f"cat {folder / NAME}",
        )
        assert not list(SHARED_MEMORY.glob(f"torch_{os.getpid()}_*")), (
            "it has no name that somebody could open"
        )


def test_the_folder_of_weights_is_entered_and_replaced_by_no_other_user() -> None:
    with handover_folder(f"ses_{secrets.token_hex(4)}") as folder:
        assert folder.parent == SHARED_MEMORY and stat.S_IMODE(folder.stat().st_mode) == 0o700
        if SHARED_MEMORY.stat().st_mode & stat.S_ISVTX:
            refused(f"mv {folder} {folder}.gone", f"rmdir {folder}")
        refused(
            f"ls {folder}",
            f"touch {folder}/weights.json",
            f"ln -s / {folder}/link",
            f"chmod 777 {folder}",
        )


def test_what_another_user_leaves_under_our_names_leads_a_runtime_nowhere(tmp_path: Path) -> None:
    """A runtime removes what one before it left in memory: by a link it would remove something
    else.
    """
    session_id = f"ses_{secrets.token_hex(4)}"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("ours")
    names = [
        SHARED_MEMORY / f"tinkerscript-{session_id}-{name}" for name in ("link", "folder", "file")
    ]
    link, planted, file = names
    plant = f"ln -s {kept} {link} && mkdir {planted} && ln -s {kept} {planted}/within && ln -s {kept}/file {file}"
    try:
        assert run_as_nobody(["sh", "-c", plant], cwd=Path("/")).returncode == 0
        with handover_folder(session_id) as folder:
            assert folder not in names and list(folder.iterdir()) == []
            assert (kept / "file").read_text() == "ours"
        assert (kept / "file").read_text() == "ours"
    finally:
        for name in names:
            if name.is_symlink():
                name.unlink()
            shutil.rmtree(name, ignore_errors=True)


def test_the_file_in_which_ranks_find_each_other_is_written_and_read_by_no_other_user() -> None:
    with readable_copy() as open_to_all:
        path = open_to_all / "ranks"
        store = rendezvous_open(str(path), 1)
        store.set("address of rank 0", "127.0.0.1")
        assert path.stat().st_size > 0 and stat.S_IMODE(path.stat().st_mode) == 0o600
        refused(
            f"cat {path}", f"echo forged >> {path}", f"rm -f {path}", f"ln -sf /etc/passwd {path}"
        )
