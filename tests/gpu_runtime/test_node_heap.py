"""What a worker of a spread engine freed, the system has again, also where its process was started
to keep it.
"""

import os
import platform
import subprocess
import sys

import pytest

from gpu_runtime.engine.vllm_process import child_variables

pytestmark = pytest.mark.system

PROGRAM = """
from pathlib import Path
from gpu_runtime.engine.over_nodes.heap import heap_return
def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
RETURN
before, old, new = held(), [], []
for _ in range(8):  # each layer anew beside the old one
    old.append(bytearray(b"1" * (16 << 20)))
for number in range(8):
    new.append(bytearray(b"1" * (12 << 20)))
    old[number] = None
print((held() - before) >> 20)
"""


def held_mib(call: str) -> int:
    """Of 96 MiB that are in use."""
    program = PROGRAM.replace("RETURN", call)
    environment = os.environ | child_variables("cpu", ())
    command = [sys.executable, "-c", program]
    return int(
        subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment, timeout=60
        ).stdout
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of the GNU C library")
def test_a_worker_of_a_spread_engine_gives_back_what_it_freed() -> None:
    assert held_mib("") > 150
    assert held_mib("heap_return()") < 110
