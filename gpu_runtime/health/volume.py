"""What is large on a runtime's volume: room is looked at before it is written, progress is seen as
its files grow, and it appears whole or not at all, by a rename.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from gpu_runtime.errors import DiskFull

RESERVE_BYTES = 256 << 20  # what the journal and the logs keep when weights fill the volume
LOOK_S = 1.0


def room_require(folder: Path, size_bytes: int) -> None:
    """Raises DiskFull unless the volume of ``folder`` can take ``size_bytes`` and keep its
    reserve.
    """
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes + RESERVE_BYTES:
        raise DiskFull(
            f"{folder} has {free_bytes >> 20} MiB free; {(size_bytes + RESERVE_BYTES) >> 20} MiB "
            "are needed"
        )


@asynccontextmanager
async def folder_written(
    folder: Path, on_growth: Callable[[], None], size_bytes: int = 0
) -> AsyncIterator[Path]:
    """As ``folder_publish``, and ``on_growth`` is called as what is written grows."""
    with folder_publish(folder, size_bytes) as staging:
        async with report_file_progress(staging, on_growth):
            yield staging


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


@asynccontextmanager
async def report_file_progress(folder: Path, on_growth: Callable[[], None]) -> AsyncIterator[None]:
    """Beside the block, call ``on_growth`` whenever the files under ``folder`` were seen to have
    grown.

    Growth counts from the last look: files that replace others one by one (encryption) never add up
    to more.
    """

    async def watch() -> None:
        known = 0
        while True:
            await asyncio.sleep(LOOK_S)
            size = await asyncio.to_thread(_size_bytes, folder)
            if size > known:
                on_growth()
            known = size

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _size_bytes(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # a file was renamed while we looked
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return 0
