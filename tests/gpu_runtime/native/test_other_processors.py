"""On a processor with AVX-512 the kernels are also those of one with AVX2 alone, as most laptops
are.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runtime.native.compiled import SIDE

# 16 s of a core, beside whatever else runs.
pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(
    SIDE == 8, reason="this processor has no AVX-512: the tests beside this one ran with AVX2"
)
def test_kernels_for_avx2_pass_the_tests_of_those_for_avx512():
    """ATEN_CPU_CAPABILITY is torch's variable: of the processor it knows what it says."""
    modules = (
        "native/test_layer_kernels.py",
        "weights/test_packed_linear.py",
        "training/test_tree_kernel.py",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(TESTS / name) for name in modules),
    ]
    found = subprocess.run(
        command,
        env=os.environ | {"ATEN_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert found.returncode == 0, found.stdout[-3000:]
