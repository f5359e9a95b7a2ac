"""The durable memory of a session: every episode, call, batch and step, in one SQLite file.

A method that writes returns after its commit is on disk, or raises and has changed nothing. Safe to
call from any thread; from asyncio use a worker thread, because a commit waits for the disk.
"""

import time
from collections.abc import Callable
from pathlib import Path

from gpu_runtime.journal.batch_table import BatchTable
from gpu_runtime.journal.call_table import CallTable
from gpu_runtime.journal.changes import ChangeTable, RewardTable
from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.model_table import ModelTable

MIN_FREE_BYTES = 64 * 2**20


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

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self.database.close()
