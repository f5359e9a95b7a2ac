"""A few of fifty people in the suite: shares, limits, and nobody's data with another."""

import subprocess
import sys
from pathlib import Path

import pytest

PEOPLE, AT_ONCE = 3, 2


@pytest.mark.timeout(300)
def test_people_on_one_machine_have_their_shares_and_nothing_of_one_anothers() -> None:
    script = Path(__file__).with_name("fifty_people.py")
    command = [sys.executable, script, "--people", str(PEOPLE), "--at-once", str(AT_ONCE)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
    assert ran.stdout.splitlines()[-1].split() == ["broken", "promises", "0"]
