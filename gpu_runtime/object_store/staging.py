"""Files and folders of the runtime's volume that appear whole or not at all: made under another
name, then renamed.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_runtime.health.free_room import room_require


@contextmanager
def folder_publish(folder: Path, size_bytes: int = 0) -> Iterator[Path]:
    """Yield an empty folder to write to; it becomes ``folder`` in one rename when the block ends
    well.

    ``size_bytes`` is what will be written, if known. Raises DiskFull before anything is written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    room_require(folder.parent, size_bytes)
    staging = staging_path(folder, "writing")
    shutil.rmtree(staging, ignore_errors=True)  # of a runtime that was killed
    staging.mkdir()
    try:
        yield staging
        publish(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def staging_path(path: Path, what: str) -> Path:
    """The path beside ``path`` where its content is made: a rename on one volume then publishes
    it.
    """
    return path.parent / f".{path.name}.{what}"


def publish(staging: Path, folder: Path) -> None:
    """Replace ``folder`` with a finished one."""
    replaced = staging_path(folder, "replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if folder.exists():
        folder.rename(replaced)
    staging.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
