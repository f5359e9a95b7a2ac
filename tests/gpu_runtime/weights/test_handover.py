"""After a hand-over the engine computes with the new weights, all of them, and exactly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[3]


# Llama's shape is held by training/test_parity_of_engine.py, before and after three hand-overs.
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param("qwen2", "repacked", marks=pytest.mark.nightly),
        ("qwen3", "repacked"),
        ("mistral", "reloaded"),
    ],
)
def test_every_hand_over_changes_every_weight_and_no_log_probability_is_off(tmp_path, kind, way):
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "support" / "handover_probe.py", kind, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}"},
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ways"] == [way, way]
    assert max(found["gaps"]) < 1e-4
