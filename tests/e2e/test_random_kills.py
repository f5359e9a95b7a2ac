"""SIGKILL of the training process, at random moments, with the real trainer."""

import subprocess
import sys
from pathlib import Path

import pytest

POINTS = 2


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_weights_are_bit_identical_after_kills_at_random_points() -> None:
    """The output names the seed: the same kills are made again by the command that it prints."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("random_kills.py")),
        "--points",
        str(POINTS),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=850)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
    assert f"{POINTS} kills" in ran.stdout.splitlines()[-1], ran.stdout
