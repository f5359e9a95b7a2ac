"""The GSM8K part of `make gpu`: what it says where what it needs is not there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_network_it_is_said_what_is_missing_and_how_it_is_brought(tmp_path: Path) -> None:
    program = "from pathlib import Path; from gpu.gsm8k_data import problems_get; problems_get(Path('.'), smoke=False)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env=os.environ | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path),
        },
    )  # fmt: skip
    assert ran.returncode == 1 and "of the dataset openai/gsm8k is not in" in ran.stderr, ran.stderr
    assert "HF_HUB_OFFLINE=1 forbids it" in ran.stderr and "`hf download`" in ran.stderr
    assert "Traceback" not in ran.stderr
