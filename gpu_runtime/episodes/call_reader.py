"""Calls of ended episodes, from the journal or, where it was pruned of them, from the object store."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from gpu_runtime.episodes.journal_executor import JournalExecutor
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.pruning import CallsPruned, pruned_among
from gpu_runtime.journal.records import CallRecord

Calls = tuple[CallRecord, ...]


async def _none_recalled(episode_ids: Sequence[str]) -> Mapping[str, Calls]:
    raise CallsPruned(f"the calls of {episode_ids[0]} are in an object store that this process does not read")


class CallReader:
    """``recall`` reads the calls of pruned episodes; a runtime sets it."""

    def __init__(self, journal: Journal, executor: JournalExecutor) -> None:
        self._journal, self._executor = journal, executor
        self.recall: Callable[[Sequence[str]], Awaitable[Mapping[str, Calls]]] = _none_recalled

    async def of_episode(self, episode_id: str) -> Calls:
        """Every call of an episode, in the order of recording. Raises StoreUnavailable, ControlPlaneLost."""
        try:
            return tuple(await self._executor.run(self._journal.calls.of_episode, episode_id))
        except CallsPruned:
            return (await self.recall([episode_id]))[episode_id]

    async def recalled(self, episode_ids: Sequence[str]) -> Mapping[str, Calls]:
        """The calls of those that were pruned. Raises StoreUnavailable, ControlPlaneLost."""
        pruned = await self._executor.run(self._pruned, episode_ids)
        return await self.recall(pruned) if pruned else {}

    def _pruned(self, episode_ids: Sequence[str]) -> list[str]:
        with self._journal.database.reading() as sql:
            return pruned_among(sql, episode_ids)
