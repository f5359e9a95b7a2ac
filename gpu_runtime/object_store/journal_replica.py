"""The journal's copy in the object store: one upload at a time, so that an older copy never
replaces a newer one.

The first copy of a runtime is whole, later ones are what changed since the one before. When the
changes together are half as large as the whole, or are too many files to read back, a whole copy
replaces them all.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from gpu_runtime.errors import ControlPlaneRefused, StoreUnavailable
from gpu_runtime.journal.database import full_disk_is_named
from gpu_runtime.journal.journal import Journal

from .file_changes import changes_write
from .uploads import ObjectStore

log = logging.getLogger(__name__)

MAX_CHANGES = 60  # files of changes beside a whole copy
SMALL_BYTES = 1 << 20  # a journal as small as this is sent whole


class JournalReplica:
    """Losing this machine costs at most what was journaled since the last ``renew``."""

    def __init__(self, store: ObjectStore, journal: Journal, volume: Path) -> None:
        self._store, self._journal = store, journal
        self._copy, self._next = volume / "journal-copy.sqlite3", volume / "journal-next.sqlite3"
        self._changes = volume / "journal-changes"
        # The hashes of the files in the store that make up ``_copy``, in order; empty: what is
        # there is not known.
        self._stored: list[str] = []
        self._changes_bytes = 0
        self._lock = asyncio.Lock()

    async def renew(self, *, whole: bool = False) -> None:
        """Store the journal as it is now, on request as a ``whole`` copy. Raises as
        ``journal_replicate`` does.
        """
        # Shielded: a copy that is being made is finished even if its caller is cancelled; the next
        # one waits for it.
        await asyncio.shield(asyncio.ensure_future(self._renew(whole)))

    async def keep_fresh(self, interval_s: float, *, at_once: asyncio.Event) -> None:
        """Renew at an interval, and as soon as ``at_once`` is set; a store that is away only makes
        the copy late.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await at_once.wait()
            try:
                await self.renew()
            except StoreUnavailable as fault:
                log.warning("the journal's copy is late: %s", fault)
            if at_once.is_set():  # the interval goes on, for a step that is longer than it
                await asyncio.sleep(interval_s)

    async def _renew(self, whole: bool) -> None:
        async with self._lock:
            # Known again once the upload has ended well: after one that failed a whole copy is
            # sent.
            stored, self._stored = [] if whole else self._stored, []
            try:
                await asyncio.to_thread(self._journal.database.backup, self._next)
                is_worth_it, differing = await asyncio.to_thread(self._changes_make, stored)
                self._next.replace(self._copy)
                if stored and not differing:
                    self._stored = stored
                elif not is_worth_it or not await self._changes_send(stored):
                    self._stored, self._changes_bytes = (
                        [await self._store.journal_replicate(self._copy)],
                        0,
                    )
            finally:
                self._changes.unlink(missing_ok=True)

    async def _changes_send(self, stored: list[str]) -> bool:
        """False where the store has another copy than the one that they follow."""
        size_bytes = self._changes.stat().st_size
        try:
            self._stored = [
                *stored,
                await self._store.journal_replicate(self._changes, follows=stored),
            ]
        except ControlPlaneRefused as refusal:
            log.warning("a whole copy of the journal is sent: %s", refusal)
            return False
        self._changes_bytes += size_bytes
        return True

    def _changes_make(self, stored: list[str]) -> tuple[bool, int]:
        """Write what changed since ``_copy``: whether it is worth sending, and how many bytes
        differ.
        """
        if not stored:
            return False, 0
        with full_disk_is_named():
            differing = changes_write(self._copy, self._next, self._changes)
        whole_bytes = self._next.stat().st_size
        is_worth_it = (
            differing > 0
            and whole_bytes > SMALL_BYTES
            and len(stored) <= MAX_CHANGES
            and self._changes_bytes + self._changes.stat().st_size <= whole_bytes / 2
        )
        return is_worth_it, differing
