"""The real engine and the real trainer agree on every sampled token, before and after every hand-over."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="all weights"), pytest.param({"lora_rank": 4}, id="LoRA", marks=pytest.mark.nightly)],
)
def test_no_log_probability_is_off_before_or_after_any_hand_over(tmp_path, options):
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "support" / "parity_probe.py", str(tmp_path), json.dumps(options)],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}"},
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["gaps"]) == 6 and max(found["gaps"]) < 1e-4
    assert max(found["kls"]) < 5e-9
    assert min(found["moved"]) > 1e-3, "each hand-over brought other weights, or nothing was shown"
