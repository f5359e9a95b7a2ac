"""The journal's copy in the object store: one upload at a time, so that an older copy never replaces a newer one."""

import asyncio
import contextlib
import logging
from pathlib import Path

from gpu_runtime.errors import StoreUnavailable
from gpu_runtime.journal.journal import Journal

from .uploads import ObjectStore

log = logging.getLogger(__name__)


class JournalReplica:
    """Losing this machine costs at most what was journaled since the last ``renew``."""

    def __init__(self, store: ObjectStore, journal: Journal, volume: Path) -> None:
        self._store, self._journal = store, journal
        self._copy = volume / "journal-copy.sqlite3"
        self._sha256 = ""
        self._lock = asyncio.Lock()

    async def renew(self) -> None:
        """Store the journal as it is now. Raises as ``journal_replicate`` does."""
        # Shielded: a copy that is being made is finished even if its caller is cancelled; the next one waits for it.
        await asyncio.shield(asyncio.ensure_future(self._renew()))

    async def keep_fresh(self, interval_s: float, *, at_once: asyncio.Event) -> None:
        """Renew at an interval, and as soon as ``at_once`` is set; a store that is away only makes the copy late."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(at_once.wait(), interval_s)
            try:
                await self.renew()
            except StoreUnavailable as fault:
                log.warning("the journal's copy is late: %s", fault)
            if at_once.is_set():  # the interval goes on, for a step that is longer than it
                await asyncio.sleep(interval_s)

    async def _renew(self) -> None:
        async with self._lock:
            await asyncio.to_thread(self._journal.database.backup, self._copy)
            self._sha256 = await self._store.journal_replicate(self._copy, known_sha256=self._sha256)
