"""The folder through which weights pass from trainer to engine: in memory where the machine has it."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def handover_folder(session_id: str) -> Iterator[Path]:
    """A folder in memory where the machine has one. What a killed runtime of the session left there is removed."""
    for left in _memory().glob(f"tinkerscript-{session_id}-*"):
        shutil.rmtree(left, ignore_errors=True)
    with handover_make(session_id) as folder:
        yield folder


def _memory() -> Path:
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


@contextmanager
def handover_make(name: str) -> Iterator[Path]:
    """A new folder of this name for weights, in memory where the machine has it; removed after the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"tinkerscript-{name}-", dir=_memory()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
