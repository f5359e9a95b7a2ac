"""The data folder of an older release, taken to this one: people find what they had, and a session goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from support import older_release

pytestmark = pytest.mark.system


def test_the_data_of_release_0_1_is_there_after_the_upgrade(tmp_path: Path) -> None:
    (tmp_path / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, older_release.__file__],
        env={"TINKERSCRIPT_DATA": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["upgraded"], done.stderr[-4000:]
