"""The durable memory of a session: every episode, call, batch and step, in one SQLite file, and the
one worker thread in which it is read and written.

A method that writes returns after its commit is on disk, or raises and has changed nothing. Safe to
call from any thread; from asyncio use ``Journal.run``, because a commit waits for the disk.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from gpu_runtime.errors import DiskFull
from gpu_runtime.journal.batch_table import BatchTable
from gpu_runtime.journal.call_table import CallTable
from gpu_runtime.journal.changes import ChangeTable, RewardTable
from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.model_table import ModelTable
from gpu_runtime.refusals import VolumeFull

MIN_FREE_BYTES = 64 * 2**20
T = TypeVar("T")


class Journal:
    """One session's journal. Example: ``Journal(Path("journal.sqlite3")).episodes.get("epi_1f")``.

    New work (``episodes.begin``, ``calls.record``) is refused with DiskFull while the volume has
    less than ``min_free_bytes``; what only finishes work already taken may use that reserve.
    """

    def __init__(
        self,
        path: Path,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self.database = Database(path, min_free_bytes=min_free_bytes)
        self.episodes = EpisodeTable(self.database, now)
        self.calls = CallTable(self.database, self.episodes)
        self.batches = BatchTable(self.database, self.episodes, now)
        self.changes = ChangeTable(self.database, now)
        self.rewards = RewardTable(self.database, self.episodes, now)
        self.models = ModelTable(self.database, now)

    def hold(self) -> None:
        """Be the only one that writes it: ``Database.hold``."""
        self.database.hold()

    async def run(self, call: Callable[..., T], *args: object, **options: object) -> T:
        """``call(*args, **options)`` in the worker thread, in order. A cancelled caller does not
        undo it. Raises VolumeFull.
        """
        future = asyncio.get_running_loop().run_in_executor(
            self._worker, functools.partial(call, *args, **options)
        )
        try:
            return await asyncio.shield(future)
        except DiskFull as error:
            raise VolumeFull(str(error)) from error

    def close(self) -> None:
        """Finish what the worker thread was given, and close the file. Safe to call twice."""
        self._worker.shutdown(wait=True)
        self.database.close()


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which goes on if the caller is cancelled: what is on disk must be so
    in memory."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
