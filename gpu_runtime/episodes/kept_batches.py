"""What is kept of batches and of the calls of ended episodes: in the journal or, where it was
pruned of them, in the object store.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from gpu_runtime.episodes.batch_export import KeptBatch, KeptState
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import BatchRecord, CallRecord
from gpu_runtime.journal.removal import CallsPruned, pruned_among
from gpu_runtime.loop.batching import Batch, Group, TrainedEpisode, batch_advantages
from tinkerscript.wire.config import SessionConfig

Calls = tuple[CallRecord, ...]
Recall = Callable[[Sequence[str]], Awaitable[Mapping[str, Calls]]]  # the calls of pruned episodes


async def none_recalled(episode_ids: Sequence[str]) -> Mapping[str, Calls]:
    raise CallsPruned(
        f"the calls of {episode_ids[0]} are in an object store that this process does not read"
    )


class KeptBatches:
    """Reads alone. ``recall`` reads the calls that the journal was pruned of."""

    def __init__(self, journal: Journal, config: SessionConfig, recall: Recall) -> None:
        self._journal, self._config, self._recall = journal, config, recall

    async def calls_of(self, episode_id: str) -> Calls:
        """Every call of an episode, in the order of recording. Raises StoreUnavailable,
        ControlPlaneLost.
        """
        try:
            return tuple(await self._journal.run(self._journal.calls.of_episode, episode_id))
        except CallsPruned:
            return (await self._recall([episode_id]))[episode_id]

    async def batch(self, step: int) -> Batch | None:
        """The journaled batch of ``step`` with all its episodes, as it was or will be trained."""
        found = await self._journal.run(self._journal.batches.get, step)
        if found is None:
            return None
        return await self._journal.run(
            batch_load, self._journal, found, await self._recalled(_members(found))
        )

    async def kept(self, name: str) -> KeptBatch | None:
        """A batch by the number of its step or, if it was refused, by its name. Raises
        StoreUnavailable, ControlPlaneLost.
        """
        found = await asyncio.to_thread(self._named, name)
        while found is not None:
            record, config, state, reason, metrics = found
            recalled = await self._recalled(_members(record))
            with suppress(CallsPruned):  # pruned since: recalled now
                batch = await asyncio.to_thread(batch_load, self._journal, record, recalled)
                return KeptBatch(name, batch, config, state, reason, metrics)
        return None

    def find(self, step: int) -> Batch | None:
        """The batch of a step of which nothing is pruned. Reads the disk: call it in a thread.
        Raises CallsPruned.
        """
        record = self._journal.batches.get(step)
        return None if record is None else batch_load(self._journal, record, {})

    async def config_at(self, step: int) -> SessionConfig:
        """What a step is trained with: options may have been changed since the session began."""
        return await self._journal.run(self._journal.changes.config_at, self._config, step)

    async def step_metrics(self, step: int) -> dict[str, Any] | None:
        """What was recorded of a step, which is never undone; None of one that is not done."""
        return await self._journal.run(self._journal.batches.step_metrics, step)

    async def groups_set_aside(self, step: int) -> Sequence[float]:
        """Of each group that was set aside on the way to ``step``, how far its answers spread."""
        return await self._journal.run(self._journal.batches.level_groups, step)

    async def advantages_beside(self, episode_id: str) -> dict[str, dict[str, float]]:
        """Those of the calls of each other episode of its batch; empty for one of no batch."""
        name = await self._journal.run(self._journal.batches.name_of, episode_id)
        kept = await self.kept(name) if name else None
        if kept is None:
            return {}
        of_groups = await asyncio.to_thread(batch_advantages, kept.batch, kept.config)
        pairs = zip(kept.batch.episodes, chain.from_iterable(of_groups), strict=True)
        return {
            episode.record.id: by_call
            for episode, by_call in pairs
            if by_call and episode.record.id != episode_id
        }

    def _named(
        self, name: str
    ) -> tuple[BatchRecord, SessionConfig, KeptState, str, dict[str, Any] | None] | None:
        """A batch as ``kept`` names it: its composition, the options of its step, what became of
        it, why, and the metrics of its step.
        """
        batches, config_at = self._journal.batches, self._journal.changes.config_at
        if (refused := batches.refused(name)) is not None:
            record, reason, at = refused
            return record, config_at(self._config, record.step, until=at), "refused", reason, None
        found = batches.get(int(name)) if name.isdecimal() and len(name) < 10 else None
        if found is None:
            return None
        metrics = batches.step_metrics(found.step)
        state: KeptState = "trained" if metrics else "journaled"
        return found, config_at(self._config, found.step), state, "", metrics

    async def _recalled(self, episode_ids: Sequence[str]) -> Mapping[str, Calls]:
        """The calls of those that were pruned."""
        pruned = await self._journal.run(self._pruned, episode_ids)
        return await self._recall(pruned) if pruned else {}

    def _pruned(self, episode_ids: Sequence[str]) -> list[str]:
        with self._journal.database.reading() as sql:
            return pruned_among(sql, episode_ids)


def batch_load(journal: Journal, record: BatchRecord, recalled: Mapping[str, Calls]) -> Batch:
    """A batch with its episodes; ``recalled``: the calls of those that the journal was pruned of.
    Reads the disk.
    """
    return Batch(
        record.step,
        record.policy_version,
        tuple(group_load(journal, group, recalled) for group in record.groups),
    )


def group_load(
    journal: Journal, episode_ids: Sequence[str], recalled: Mapping[str, Calls]
) -> Group:
    """As ``batch_load``. Raises CallsPruned."""
    members = tuple(
        TrainedEpisode(
            record,
            recalled[episode_id]
            if episode_id in recalled
            else tuple(journal.calls.of_episode(episode_id)),
            journal.batches.gap(episode_id),
            journal.batches.kept_advantages(episode_id),
        )
        for episode_id in episode_ids
        if (record := journal.episodes.get(episode_id))
    )
    keys = (member.record.group_key for member in members)  # an erased one has none
    return Group(next((key for key in keys if key), ""), members)


def _members(record: BatchRecord) -> list[str]:
    return [episode_id for group in record.groups for episode_id in group]
