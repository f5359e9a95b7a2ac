"""Every script of this folder starts: what it imports of the product is still there."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

SCRIPTS = sorted(
    script
    for script in Path(__file__).parent.glob("*.py")
    if "ArgumentParser" in script.read_text() and script != Path(__file__)
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_says_what_it_measures(script: Path) -> None:
    asked = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, timeout=120
    )
    assert asked.returncode == 0 and "usage:" in asked.stdout, asked.stderr
