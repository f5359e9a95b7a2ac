"""What a step freed, the next one finds without page faults."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

PROGRAM = """
import resource
from gpu_runtime.training.cpu.process import heap_keep
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [bytearray(48 << 20) for _ in range(4)]
    del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
KEEP
faults()
print(faults())
"""


def faults_of_second_use(keep: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("KEEP", keep)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return int(done.stdout)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library is not glibc: nothing to set"
)
def test_memory_that_was_freed_is_used_again_without_page_faults():
    assert faults_of_second_use("heap_keep()") < 100
    assert faults_of_second_use("") > 1000, "the system's default would do as well"
