"""Completed episodes on their way into steps: who waits, what the next batch is, and what a done step changes."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpu_runtime.batch_lines import KeptBatch
from gpu_runtime.gateway.admission import full_groups, stale_episodes
from gpu_runtime.gateway.disk import Bell, Disk
from gpu_runtime.gateway.errors import NotAdmitted
from gpu_runtime.journal import Journal
from gpu_runtime.journal_records import BatchRecord, EpisodeRecord
from gpu_runtime.training.batching import Batch, Group, TrainedEpisode
from tinkerscript.wire.config import SessionConfig

GATE_S = 300.0  # how long a call may wait for a step and its hand-over
STALE = "stale: its tokens are older than max_staleness allows"


class Batches:
    """``policy_version`` is the number of completed steps. One batch is under way at a time, and it is journaled."""

    def __init__(self, journal: Journal, config: SessionConfig, disk: Disk, bell: Bell) -> None:
        self._journal, self._config, self._disk, self._bell = journal, config, disk, bell
        self._lock = asyncio.Lock()
        self._stepping = False
        self._ready: Batch | None = None
        self.policy_version = journal.latest_step()
        undone = journal.batches_after(self.policy_version)
        self._under_way: int | None = undone[0].step if undone else None
        self.waiting = {record.id: record for record in journal.waiting_episodes()}

    @property
    def is_over(self) -> bool:
        """Whether ``max_steps`` is reached: episodes are still served, none is trained any more."""
        return self._config.max_steps is not None and self.policy_version >= self._config.max_steps

    @property
    def calls_may_run(self) -> bool:
        """Strictly on-policy sessions sample nothing while a step and its hand-over run."""
        return not (self._stepping and self._config.max_staleness == 0)

    async def wait_for_calls(self, *, gate_s: float = GATE_S) -> None:
        """Until ``calls_may_run``. Raises NotAdmitted after ``gate_s`` seconds."""
        deadline = asyncio.get_running_loop().time() + gate_s
        while not self.calls_may_run:
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise NotAdmitted("a training step takes longer than a call may wait")
            await self._bell.wait(left_s)

    def pending(self) -> int:
        """Batches that are under way or could be made at once."""
        full = len(full_groups(list(self.waiting.values()), self._config.grpo_n)) // self._config.tasks_per_batch
        return full + int(self._under_way is not None or self._stepping)

    async def add(self, record: EpisodeRecord) -> EpisodeRecord:
        """A completed training episode joins those that wait; one that is too old already becomes stale."""
        self.waiting[record.id] = record
        await self._drop_stale()
        self._bell.ring()
        return await self._disk.run(self._journal.episode, record.id) or record

    async def next_batch(self) -> Batch | None:
        """Wait for a full batch, journal its composition, and answer it; none once ``max_steps`` is reached.

        A batch that was journaled but whose step is not done is answered again, first: also after a restart. Nothing
        is answered while a step runs: it could be what ``flush_batch`` gave to that step.
        """
        while not self.is_over:
            heard = self._bell.rings
            batch = None if self._stepping else await self._make(self._config.tasks_per_batch)
            if batch is not None and batch.step == self._under_way and not self._stepping:
                return batch
            await self._bell.wait(5.0, heard)
        return None

    async def flush_batch(self) -> Batch | None:
        """A batch of whatever full groups exist now, at most ``tasks_per_batch`` of them; none if there is none."""
        return None if self.is_over else await self._make(1)

    async def batch(self, step: int) -> Batch | None:
        """The journaled batch of ``step`` with all its episodes, as it was or will be trained."""
        return await self._disk.run(self._load, step)

    def find(self, name: str) -> KeptBatch | None:
        """A batch by the number of its step or, if it was refused, by its name. Reads the disk: call it in a thread."""
        if (refused := self._journal.batch_refused(name)) is not None:
            record, reason = refused
            return KeptBatch(name, self._load_record(record), "refused", reason=reason)
        batch = self._load(int(name)) if name.isdecimal() and len(name) < 10 else None
        if batch is None:
            return None
        metrics = self._journal.step_metrics(batch.step)
        return KeptBatch(name, batch, "trained" if metrics else "journaled", metrics=metrics)

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Around a step and its hand-over. Leaving it lets calls and episodes go on, whatever happened inside."""
        self._stepping = True
        try:
            yield
        finally:
            self._stepping = False
            self._bell.ring()

    async def step_done(self, step: int, metrics: dict[str, Any]) -> None:
        """The step's weights are served: its episodes are trained, ``policy_version`` is at least ``step``."""
        await self._disk.run(self._journal.step_record, step, metrics)
        self.policy_version = max(self.policy_version, step)
        self._forget(step)
        await self._drop_stale()
        self._bell.ring()

    async def step_refused(self, step: int, reason: str) -> None:
        """The step cannot be done: its episodes become stale with this reason, and its number is free again."""
        await self._disk.run(self._journal.batch_discard, step, reason)
        self._forget(step)
        self._bell.ring()

    def _forget(self, step: int) -> None:
        if self._under_way == step:
            self._under_way, self._ready = None, None

    async def _make(self, least_groups: int) -> Batch | None:
        # Shielded: a caller that stops waiting must not leave a journaled batch that nobody remembers.
        return await asyncio.shield(asyncio.ensure_future(self._make_now(least_groups)))

    async def _make_now(self, least_groups: int) -> Batch | None:
        async with self._lock:
            if self._under_way is None:
                groups = full_groups(list(self.waiting.values()), self._config.grpo_n)[: self._config.tasks_per_batch]
                if len(groups) < least_groups:
                    return None
                step = self.policy_version + 1
                ids = [[episode.id for episode in group] for group in groups]
                await self._disk.run(self._journal.batch_record, step, ids, self.policy_version)
                self._under_way = step
                for group in groups:
                    for episode in group:
                        self.waiting.pop(episode.id, None)
            if self._ready is None:
                self._ready = await self._disk.run(self._load, self._under_way)
            return self._ready

    def _load(self, step: int) -> Batch | None:
        found = self._journal.batch_get(step)
        return None if found is None else self._load_record(found)

    def _load_record(self, record: BatchRecord) -> Batch:
        return Batch(record.step, record.policy_version, tuple(map(self._load_group, record.groups)))

    def _load_group(self, episode_ids: tuple[str, ...]) -> Group:
        members = tuple(
            TrainedEpisode(record, tuple(self._journal.calls(episode_id)))
            for episode_id in episode_ids
            if (record := self._journal.episode(episode_id))
        )
        return Group(members[0].record.group_key or "", members)

    async def _drop_stale(self) -> None:
        ids = stale_episodes(
            list(self.waiting.values()),
            policy_version=self.policy_version,
            max_staleness=self._config.max_staleness,
        )
        for episode_id in ids:
            self.waiting.pop(episode_id, None)
        if ids:
            await self._disk.run(self._journal.mark_stale, ids, STALE)
