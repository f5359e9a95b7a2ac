"""Three recipes of tinker-cookbook, unmodified, on the real engine and trainer; ``make nightly``
runs all of them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (ROOT / ".venv-cookbook" / "bin" / "python").exists(),
        reason="tinker-cookbook is not installed: .venv-cookbook",
    ),
]


def test_a_supervised_a_reinforcement_and_a_preference_recipe_run_unmodified() -> None:
    command = [sys.executable, "tests/recipes/run.py", "sl_loop", "rl_loop", "dpo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "3 of 3 recipes passed"
