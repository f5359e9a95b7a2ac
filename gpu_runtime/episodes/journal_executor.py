"""The one worker thread in which a session's journal is read and written."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from gpu_runtime.errors import DiskFull
from gpu_runtime.refusals import VolumeFull

T = TypeVar("T")


class JournalExecutor:
    """Runs journal calls in order, off the event loop."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")

    async def run(self, call: Callable[..., T], *args: object, **options: object) -> T:
        """``call(*args, **options)`` in the worker. A cancelled caller does not undo it. Raises
        VolumeFull.
        """
        future = asyncio.get_running_loop().run_in_executor(
            self._worker, functools.partial(call, *args, **options)
        )
        try:
            return await asyncio.shield(future)
        except DiskFull as error:
            raise VolumeFull(str(error)) from error

    def close(self) -> None:
        """Finish what was taken and end the thread."""
        self._worker.shutdown(wait=True)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which goes on if the caller is cancelled: what is on disk must be so
    in memory."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
