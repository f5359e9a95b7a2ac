"""Erasing an episode while its session runs: everything that this runtime has of it, and the
journal's stored copy.

    nothing is on its way to the store -> tables -> the file is written anew -> its copy is stored whole

The control plane erases the rest after it (``episode_erasure.py``). An attempt that failed is
repeated whole.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from gpu_runtime.archive.archive import Archive
from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, DiskFull, StoreUnavailable
from gpu_runtime.journal.removal import NotErasable
from gpu_runtime.refusals import NotAdmitted, OutputConflict, VolumeFull

from .reporter import EpisodeReporter
from .stored_calls import StoredCalls

AWAY = (StoreUnavailable, ControlPlaneLost, ControlPlaneRefused)
PATIENCE_S = 15.0  # of the caller, for what is on its way to the store


class EpisodeErasure:
    """One session's. ``erase`` may be called at any time."""

    def __init__(
        self,
        episodes: Episodes,
        archive: Archive,
        reporter: EpisodeReporter,
        stored: StoredCalls,
        volume: Path,
    ) -> None:
        self._episodes, self._archive, self._reporter, self._stored = (
            episodes,
            archive,
            reporter,
            stored,
        )
        # out of the journal and of its stored copy, as far as this process knows
        self._erased: set[str] = set()
        self._folders = (volume / "archive", volume / "trajectories")

    async def erase(self, episode_id: str) -> None:
        """Returns once no file here and no copy of the journal has it.

        Raises NotFound, OutputConflict, NotAdmitted, VolumeFull. A caller that gave up, because a
        whole copy takes longer than it waits, asks again and gets the result.
        """
        if episode_id in self._erased:
            return
        async with self._nothing_on_its_way():
            if episode_id in self._erased:  # by another caller meanwhile
                return
            await self._journal_erase(episode_id)
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)
            await self._copy_renew()
            self._erased.add(episode_id)

    @asynccontextmanager
    async def _nothing_on_its_way(self) -> AsyncIterator[None]:
        """No part and no document is sent within the block. Raises NotAdmitted where that takes too
        long.
        """
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    for sending in (self._archive.sending, self._reporter.sending):
                        await held.enter_async_context(sending)
            except TimeoutError:
                raise NotAdmitted(
                    "episodes are on their way to the object store, which takes a while"
                ) from None
            yield

    async def _journal_erase(self, episode_id: str) -> None:
        try:
            await self._episodes.erase(episode_id, states=self._stored.states)
        except NotErasable as refused:
            raise OutputConflict(str(refused)) from None
        except AWAY as away:
            raise NotAdmitted(
                "nothing was erased: the advantages of the others of its batch cannot be kept, "
                "because calls that they"
                f" are computed of could not be read from the object store: {away}"
            ) from away

    async def _copy_renew(self) -> None:
        still = "the journal's copy was not renewed, and may still have the episode"
        try:
            await self._archive.replica.renew(whole=True)
        except DiskFull as full:
            raise VolumeFull(f"{still}: {full}") from full
        except AWAY as away:
            raise NotAdmitted(f"{still}: {away}") from away
