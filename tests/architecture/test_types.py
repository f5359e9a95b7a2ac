"""The types of runtime and client fit each other, and the libraries' that have any: a GPU's path as a CPU's."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 280  # a first run takes 25 s of one core, a later one 2 s: it keeps what it read in .mypy_cache


@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed, whose types are part of the check")
def test_runtime_and_client_are_type_checked():
    # What to check, and how, is in pyproject.toml.
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
