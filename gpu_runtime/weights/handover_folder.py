"""The folder through which weights pass from trainer to engine: in memory where the machine has it.

On several nodes each has a part of the folder, for the weights that its own rank leaves there for
its own engine, and the folder is the runtime's, which the nodes share.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def handover_folder(session_id: str, nodes: int = 1) -> Iterator[Path]:
    """A folder in memory where the machine has one. What a killed runtime of the session left there
    is removed.

    ``nodes``: over how many the session is spread.
    """
    for left in _place(nodes).glob(f"tinkerscript-{session_id}-*"):
        shutil.rmtree(left, ignore_errors=True)
    with handover_make(session_id, nodes) as folder:
        yield folder


def handover_part(folder: Path, node: int) -> Path:
    """Where the weights are of node number ``node``, the runtime's own first."""
    return folder / f"node-{node}" if node else folder


def folder_is_whole(folder: Path | None) -> bool:
    """Whether it is a Hugging Face folder, and neither an adapter's nor one through which weights
    pass.
    """
    return folder is not None and (folder / "config.json").is_file()


def _place(nodes: int) -> Path:
    if nodes > 1:
        return Path(os.environ["TINKERSCRIPT_RUNTIME_DIR"])
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


@contextmanager
def handover_make(name: str, nodes: int = 1) -> Iterator[Path]:
    """A new folder of this name for weights, in memory where the machine has it; removed after the
    block.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"tinkerscript-{name}-", dir=_place(nodes)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
