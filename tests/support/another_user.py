"""Commands run as another user of this machine, who has no right to anything of a server's."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


def require_root() -> None:
    """Only root can become another user."""
    if os.getuid() != 0:
        pytest.skip("only root can run a command as another user")


def run_as_nobody(
    command: Sequence[str | Path], *, cwd: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """What ``command`` printed (stderr too) and its exit status, run by `nobody` with an empty
    environment.
    """
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=stdin,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        user=NOBODY,
        group=NOBODY,
        extra_groups=(),
    )


@contextmanager
def readable_copy(*programs: str | Path) -> Iterator[Path]:
    """A folder that everybody may enter, with copies of ``programs`` in it."""
    folder = Path(tempfile.mkdtemp(prefix="tinkerscript-everybody-"))
    try:
        folder.chmod(0o755)
        for program in programs:
            shutil.copy(program, folder)
        yield folder
    finally:
        shutil.rmtree(folder)
