"""The journal's one worker thread, and the bell that wakes those who wait for the ledger to change."""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpu_runtime.errors import JournalFull
from gpu_runtime.gateway.errors import DiskFull

T = TypeVar("T")


class Disk:
    """Runs journal calls in order, off the event loop."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")

    async def run(self, call: Callable[..., T], *args: object, **options: object) -> T:
        """``call(*args, **options)`` in the worker. A cancelled caller does not undo it. Raises DiskFull."""
        future = asyncio.get_running_loop().run_in_executor(self._worker, functools.partial(call, *args, **options))
        try:
            return await asyncio.shield(future)
        except JournalFull as error:
            raise DiskFull(str(error)) from error

    def close(self) -> None:
        """Finish what was taken and end the thread."""
        self._worker.shutdown(wait=True)


class Bell:
    """Wakes every waiter at each ring. Wait in a loop that checks its own condition.

    Where the check itself awaits, read ``rings`` before it and pass it to ``wait``: a ring in between is not missed.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.rings = 0

    def ring(self) -> None:
        """Something changed."""
        self.rings += 1
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout_s: float, heard: int | None = None) -> None:
        """Until there was a ring after the first ``heard`` ones (default: after now), or for ``timeout_s``."""
        if heard is not None and heard != self.rings:
            return
        event = self._event
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
