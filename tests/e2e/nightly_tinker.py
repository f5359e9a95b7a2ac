"""A program of the ``tinker`` client that trains all weights, with every part real; part of ``make
nightly``.

Two runtimes start for it, the second to go on from the first one's state.
"""

import json
import subprocess
import sys
from pathlib import Path

from e2e.test_real_tinker import pytestmark, server

__all__ = ["pytestmark", "server"]  # pytest reads both


def test_a_tinker_program_trains_all_weights_and_samples_from_its_snapshots(
    server: dict[str, str],
) -> None:
    program = str(Path(__file__).with_name("tinker_program.py"))
    done = subprocess.run(
        [sys.executable, program, "tiny", "0"],
        env=server,
        capture_output=True,
        text=True,
        timeout=840,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr[-6000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["info"][1:3] == [False, None]
    assert said["losses"][0] > said["losses"][1] > said["losses"][2]
    assert said["same"], "a model that goes on from a state is what was saved, to the bit"
    assert len({str(said[name]) for name in ("samples", "base_samples", "named_samples")}) == 3
