"""The archive of a session: every episode that has ended, in Parquet files beside the checkpoints.

    fix the parts in the journal -> renew the journal's copy in the store -> write and upload each part -> mark it

In that order a kill at any moment, or the loss of this machine, puts no episode into two parts:
what the store could have is in the copy of the journal that the next runtime begins with. A part
that was not marked is uploaded again.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_runtime.health.volume import room_require
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.removal import ERASED
from gpu_runtime.object_store.journal_replica import JournalReplica
from gpu_runtime.session import Session

from .parts import Part, part_stored, parts_fix, parts_unstored
from .table import episode_row, part_write


class Archive:
    """``publish`` may be called at any time; one call works, others wait for it."""

    def __init__(self, session: Session, journal: Journal, replica: JournalReplica) -> None:
        self._store, self.journal, self.replica = session.store, journal, replica
        self._folder, assignment = session.volume / "archive", session.assignment
        self._about = {"session_id": assignment.session_id, "base_model": assignment.base_model}
        self.sending = asyncio.Lock()  # held while episodes are on their way to the store

    async def publish(
        self, *, everything: bool = False, on_progress: Callable[[], None] = lambda: None
    ) -> None:
        """Have in the store the journal as it is now, and every episode of which nothing can change
        any more.

        ``everything``: no step will follow, so that waiting episodes are archived too.
        ``on_progress`` is called, from any thread, as parts are written and stored. Raises
        StoreUnavailable, DiskFull and as ``journal_replicate``.
        """
        async with self.sending:
            await asyncio.to_thread(parts_fix, self.journal, everything=everything)
            await self.replica.renew()
            for part in await asyncio.to_thread(parts_unstored, self.journal):
                await self._publish_part(part, on_progress)
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _publish_part(self, part: Part, on_progress: Callable[[], None]) -> None:
        path = self._folder / f"part-{part.number:06d}.parquet"
        episodes = await asyncio.to_thread(self._write, part, path, on_progress)
        await self._store.archive_upload(path, part.number, episodes, on_progress=on_progress)
        await asyncio.to_thread(part_stored, self.journal, part.number)
        path.unlink()

    def _write(self, part: Part, path: Path, on_progress: Callable[[], None]) -> int:
        room_require(self._folder, 0)
        episodes = 0
        for written in part_write(path, self._rows(part), self._about | {"part": str(part.number)}):
            episodes += written
            on_progress()
        return episodes

    def _rows(self, part: Part) -> Iterator[dict[str, Any]]:
        for episode_id in part.episode_ids:
            record = self.journal.episodes.get(episode_id)
            assert record is not None, "parts refer to episodes by key"
            if record.reason == ERASED:
                continue
            yield episode_row(record, self.journal.calls.of_episode(episode_id))
