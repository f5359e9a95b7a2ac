"""Calls of ended episodes, from the journal or, where it was pruned of them, from the object store;
and batches.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gpu_runtime.episodes.batch_export import KeptState
from gpu_runtime.episodes.journal_executor import JournalExecutor
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.pruning import CallsPruned, pruned_among
from gpu_runtime.journal.records import BatchRecord, CallRecord
from gpu_runtime.loop.batching import Batch, Group, TrainedEpisode
from tinkerscript.wire.config import SessionConfig

Calls = tuple[CallRecord, ...]
Recall = Callable[[Sequence[str]], Awaitable[Mapping[str, Calls]]]  # the calls of pruned episodes


async def none_recalled(episode_ids: Sequence[str]) -> Mapping[str, Calls]:
    raise CallsPruned(
        f"the calls of {episode_ids[0]} are in an object store that this process does not read"
    )


class CallReader:
    """Reads from both. ``recall`` reads what the journal was pruned of."""

    def __init__(self, journal: Journal, executor: JournalExecutor, recall: Recall) -> None:
        self._journal, self._executor, self._recall = journal, executor, recall

    async def of_episode(self, episode_id: str) -> Calls:
        """Every call of an episode, in the order of recording. Raises StoreUnavailable,
        ControlPlaneLost.
        """
        try:
            return tuple(await self._executor.run(self._journal.calls.of_episode, episode_id))
        except CallsPruned:
            return (await self._recall([episode_id]))[episode_id]

    async def recalled(self, episode_ids: Sequence[str]) -> Mapping[str, Calls]:
        """The calls of those that were pruned. Raises StoreUnavailable, ControlPlaneLost."""
        pruned = await self._executor.run(self._pruned, episode_ids)
        return await self._recall(pruned) if pruned else {}

    def _pruned(self, episode_ids: Sequence[str]) -> list[str]:
        with self._journal.database.reading() as sql:
            return pruned_among(sql, episode_ids)


def batch_named(
    journal: Journal, config: SessionConfig, name: str
) -> tuple[BatchRecord, SessionConfig, KeptState, str, dict[str, Any] | None] | None:
    """A batch as ``Batches.kept`` names it: its composition, the options of its step, what became
    of it, why, and the metrics of its step.
    """
    if (refused := journal.batches.refused(name)) is not None:
        of_refused, reason, at = refused
        config = journal.changes.config_at(config, of_refused.step, until=at)
        return of_refused, config, "refused", reason, None
    record = journal.batches.get(int(name)) if name.isdecimal() and len(name) < 10 else None
    if record is None:
        return None
    metrics = journal.batches.step_metrics(record.step)
    config = journal.changes.config_at(config, record.step)
    return record, config, "trained" if metrics else "journaled", "", metrics


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
