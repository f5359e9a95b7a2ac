"""Progress of something that only writes files: it advances as long as they grow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

LOOK_S = 1.0


@contextlib.asynccontextmanager
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
