"""Tells the control plane of each episode and puts its calls and tokens into the object store,
beside the sampling.

    what the journal has noted -> rows, each second -> documents in packs, a few times a minute -> taken off the note

All work on text and tokens is done in a thread, in short pieces. A control plane or a store that is
away delays it.
"""

import asyncio
import itertools
import logging
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gpu_runtime.archive.on_failure import NOTHING_CAN_BE_STORED
from gpu_runtime.episodes.batches import Batches
from gpu_runtime.errors import (
    ControlPlaneLost,
    ControlPlaneRefused,
    DiskFull,
    RuntimeFault,
    StoreUnavailable,
)
from gpu_runtime.health.volume import room_require
from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.journal.journal import Journal
from gpu_runtime.session import Session
from tinkerscript.wire.reading.trajectories import EpisodeRow, EpisodeRows
from tinkerscript.wire.runtime import PackedEpisode

from .documents import document_pack, episode_document
from .outbox import Due, documents_due, documents_stored, reporting_begin, rows_due, rows_reported
from .rows import episode_row, step_advantages
from .token_texts import TokenTexts

ROWS_EVERY_S = 1.0
PACK_EVERY_S = 10.0  # an episode that ended is in the store within so long, and
PACK_EPISODES = 64  # sooner where so many have ended
PACK_BYTES = 32 << 20
ROWS_AT_ONCE = 100
FAREWELL_S = 30.0  # a runtime that ended by a fault must not delay the next one for longer
CALL_S = 60.0  # how long one request may find no control plane before the next round tries again

log = logging.getLogger(__name__)
AWAY = (StoreUnavailable, ControlPlaneLost, ControlPlaneRefused, DiskFull)


class EpisodeReporter:
    """``keep_rows`` and ``keep_documents`` beside the session, then ``flush`` once at its end,
    after them.
    """

    def __init__(
        self, session: Session, journal: Journal, batches: Batches, tokenizer: Tokenizer
    ) -> None:
        self._config, self._agent, self._store = (
            session.assignment.config,
            session.agent,
            session.store,
        )
        self._journal, self._batches = journal, batches
        self._texts = TokenTexts(tokenizer)
        self._folder = session.volume / "trajectories"
        # of the last step that was looked up
        self._advantages: tuple[int, dict[str, dict[str, float]]] = (0, {})
        self._journal_last: int | None = None
        self._numbers = itertools.count(1)
        self.sending = asyncio.Lock()  # held while a row or a document is on its way

    async def keep_rows(self) -> None:
        """Report rows for ever. What cannot be sent now is sent later: the journal remembers it."""
        while True:
            await asyncio.sleep(ROWS_EVERY_S)
            try:
                await self._report_rows()
            except AWAY as fault:
                log.warning("episodes are reported late: %s", fault)

    async def keep_documents(self) -> None:
        """Store documents for ever, as ``keep_rows`` reports rows."""
        packed_at = time.monotonic()
        while True:
            await asyncio.sleep(ROWS_EVERY_S)
            due = await asyncio.to_thread(documents_due, self._journal, PACK_EPISODES)
            if not due or (
                len(due) < PACK_EPISODES and time.monotonic() - packed_at < PACK_EVERY_S
            ):
                continue
            try:
                await self._store_documents()
            except AWAY as fault:
                log.warning("tokens of episodes are stored late: %s", fault)
            packed_at = time.monotonic()

    async def flush(self) -> None:
        """Have everything reported and stored now. Raises StoreUnavailable, ControlPlaneLost,
        DiskFull, LeaseLost.
        """
        ledger = await asyncio.to_thread(self._journal.episodes.accounting)
        # what was begun and ended in the last second too
        self._agent.status.update(accounting=ledger)
        await self._report_rows()
        await self._store_documents()
        shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def flushed_on_failure(self) -> AsyncIterator[None]:
        """Around what may fail. The fault is raised again, whether all could be stored or not."""
        try:
            yield
        except RuntimeFault as error:
            if isinstance(error, NOTHING_CAN_BE_STORED):
                raise
            try:
                async with asyncio.timeout(FAREWELL_S):
                    await self.flush()
            except (OSError, RuntimeFault) as fault:  # TimeoutError is an OSError
                log.warning("after %r not every episode could be stored: %s", error, fault)
            raise

    async def _report_rows(self) -> None:
        if self._journal_last is None:
            last = await asyncio.to_thread(reporting_begin, self._journal)
            await self._agent.send(
                "/v1/runtime/episodes", EpisodeRows(rows=[], journal_last=last), deadline_s=CALL_S
            )
            self._journal_last = last
        while await self._portion_report():
            pass

    async def _portion_report(self) -> bool:
        async with self.sending:
            told = await asyncio.to_thread(rows_due, self._journal, ROWS_AT_ONCE)
            if told:
                await self._send(await asyncio.to_thread(self._rows, told))
                await asyncio.to_thread(rows_reported, self._journal, told)
        return bool(told)

    async def _send(self, rows: list[EpisodeRow]) -> None:
        try:
            await self._agent.send(
                "/v1/runtime/episodes", EpisodeRows(rows=rows), deadline_s=CALL_S
            )
        except ControlPlaneRefused as refused:
            # One row that is refused must not hold up the others, nor vanish without a trace.
            if len(rows) > 1:
                for row in rows:
                    await self._send([row])
            elif rows:
                log.error(
                    "the control plane refused the row of %s: %s", rows[0].episode_id, refused
                )

    async def _store_documents(self) -> None:
        while await self._pack_store():
            pass

    async def _pack_store(self) -> bool:
        async with self.sending:
            due = await asyncio.to_thread(documents_due, self._journal, PACK_EPISODES)
            if due:
                path, packed = await asyncio.to_thread(self._pack, due)
                await self._store.episodes_upload(path, packed)
                await asyncio.to_thread(documents_stored, self._journal, due[: len(packed)])
                path.unlink()
        return bool(due)

    def _rows(self, told: Sequence[Due]) -> list[EpisodeRow]:
        rows = []
        refused = self._journal.episodes.refused_of(due.episode_id for due in told)
        for due in told:
            record = self._journal.episodes.get(due.episode_id)
            assert record is not None, "what is noted refers to episodes by key"
            calls = self._journal.calls.of_episode(record.id) if record.ended_at is not None else []
            step = record.trained_step
            advantages = self._advantages_of(step).get(record.id) if step is not None else None
            rows.append(episode_row(record, calls, advantages, refused.get(record.id)))
        return rows

    def _advantages_of(self, step: int) -> Mapping[str, dict[str, float]]:
        """By episode: the advantage of each call in the step that trained it."""
        if self._advantages[0] != step:
            # pruned once this was told
            config = self._journal.changes.config_at(self._config, step)
            found = step_advantages(self._batches.find(step), config)
            self._advantages = (step, found)
        return self._advantages[1]

    def _pack(self, told: Sequence[Due]) -> tuple[Path, list[PackedEpisode]]:
        """A file with the documents of the first of these episodes: of all, unless they are large.
        Raises DiskFull.
        """
        room_require(self._folder, 0)
        packed: list[PackedEpisode] = []
        offset = 0
        # of its own: a thread whose caller was cancelled goes on
        path = self._folder / f"{next(self._numbers)}.pack"
        with path.open("wb") as file:
            for episode_id in (due.episode_id for due in told):
                record = self._journal.episodes.get(episode_id)
                assert record is not None, "what is noted refers to episodes by key"
                calls = self._journal.calls.of_episode(episode_id)
                data = document_pack(episode_document(record, calls, self._texts))
                file.write(data)
                packed.append(
                    PackedEpisode(episode_id=episode_id, offset=offset, size_bytes=len(data))
                )
                offset += len(data)
                if offset > PACK_BYTES:
                    break
        return path, packed
