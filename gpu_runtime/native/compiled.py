"""The C files of this folder as libraries: compiled for this processor when one is first needed,
and kept.

They are written for float32 on processors with AVX-512 or AVX2; elsewhere torch's own operators do
what they do.
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

SIDES = {"AVX512": 16, "AVX2": 8}  # numbers of a vector
# and rows of a panel: what panels.h is compiled with
SIDE = SIDES.get(torch.backends.cpu.get_cpu_capability(), 8)
OPTIONS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
# It takes 2 s of a core. A deadline that a busy machine misses would change the kernels, and with
# them the bits.
COMPILE_TIMEOUT_S = 600
SOURCES = Path(__file__).parent
log = logging.getLogger(__name__)


def is_suited() -> bool:
    """Whether this processor is one that the kernels are written for."""
    return torch.backends.cpu.get_cpu_capability() in SIDES


@functools.cache
def compiled(name: str) -> ctypes.CDLL | None:
    """The library of ``name``.c; None, with a line in the log, where there is no compiler.

    It is kept where torch keeps what it compiles for this runtime, a folder of its user's alone,
    under a name that says of what and for which processor it was made.
    """
    source = SOURCES / f"{name}.c"
    command = [os.environ.get("CC", "cc"), *OPTIONS, f"-DSIDE={SIDE}", f"-I{SOURCES}"]
    kept = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(kept or folder) / f"{name}-{_hash(source, command)}.so"
        try:
            if not path.exists():
                made = Path(folder) / "made.so"
                subprocess.run(
                    [*command, str(source), "-o", str(made)],
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=COMPILE_TIMEOUT_S,
                )
                _keep(made, path)
            return ctypes.CDLL(str(path))
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "stderr", None) or error
            log.warning("%s computes more slowly than it could: %s", name, reason)
            return None


def kernels_compile() -> None:
    """Have all of them kept where ``compiled`` looks for them, if this processor is one that they
    are written for.
    """
    if is_suited():
        for source in sorted(SOURCES.glob("*.c")):
            compiled(source.stem)


def _hash(source: Path, command: Sequence[str]) -> str:
    """Of all that the library is made of: the sources, the command, the compiler's C library, the
    processor.
    """
    try:
        processor = next(
            line
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("flags")
        )
    except (OSError, StopIteration):
        processor = platform.processor()
    headers = [path.read_text() for path in sorted(SOURCES.glob("*.h"))]
    parts = (
        source.read_text(),
        *headers,
        *command,
        platform.machine(),
        *platform.libc_ver(),
        processor,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _keep(made: Path, path: Path) -> None:
    """Whole or not at all: several engines may start at once."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(made.read_bytes())
    os.replace(file.name, path)
