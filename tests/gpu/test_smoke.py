"""`make gpu` on a CPU: each part runs to its end, in a process of its own, and the page has a block
of each.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from gpu.parts import PARTS

RUN = Path(__file__).with_name("run.py")


@pytest.mark.engine
@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_whole_command_runs_on_a_cpu_and_writes_a_page_of_its_own(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before = RUN.with_name("RESULTS.md").read_bytes()
    ran = subprocess.run(
        [sys.executable, str(RUN), "--smoke", "--results", str(page)],
        capture_output=True,
        text=True,
        timeout=3500,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    text = page.read_text()
    assert [name for name in PARTS if f"| {name} | held |" not in text] == []
    assert "| device-hours |" in text and "k3 in nats" in text and "tokens given / s" in text
    assert RUN.with_name("RESULTS.md").read_bytes() == before
