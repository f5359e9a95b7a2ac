"""Completed episodes on their way into steps: who waits, what the next batch is, and what a done
step changes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import chain
from typing import Any

from gpu_runtime.episodes.grouping import Places, full_groups, stale_episodes
from gpu_runtime.episodes.kept_batches import KeptBatches, Recall, group_load, none_recalled
from gpu_runtime.episodes.open_episodes import ON_THE_WAY_S, BegunEpisodes, OpenEpisodes
from gpu_runtime.episodes.progress import EpisodesDropped, GroupsSetAside, waiting_phase
from gpu_runtime.events import Events
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import EpisodeRecord
from gpu_runtime.journal.removal import ERASED, episode_scrub, erasable_check
from gpu_runtime.journal.token_values import NO_VALUES, TokenValues
from gpu_runtime.loop.batching import (
    Batch,
    Group,
    batch_advantages,
    group_has_signal,
)
from gpu_runtime.loop.measures import distinct_share
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.refusals import NotAdmitted
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodesRescored
from tinkerscript.wire.training.advice import stale_advice

GATE_S = 300.0  # how long a call may wait for a step and its hand-over
LEVEL = "nothing to learn: every reward of its group is the same"
STALE = "stale: its tokens are older than max_staleness allows"


class Batches(KeptBatches):
    """``policy_version`` is the number of completed steps. One batch is under way at a time, and it
    is journaled.
    """

    def __init__(
        self,
        journal: Journal,
        config: SessionConfig,
        changes: ChangeNotifier,
        open_episodes: OpenEpisodes,
        events: Events,
        recall: Recall = none_recalled,
    ) -> None:
        super().__init__(journal, config, recall)
        self._now, self._changes = open_episodes.now, changes
        self._events = events
        self._begun = BegunEpisodes(config, open_episodes)
        self._lock, self._stepping, self._is_early = asyncio.Lock(), False, False
        self._ready: Batch | None = None
        self.policy_version = journal.batches.latest_step()
        undone = journal.batches.after(self.policy_version)
        self._under_way: int | None = undone[0].step if undone else None
        self._groups_under_way = len(undone[0].groups) if undone else 0
        self.waiting = {record.id: record for record in journal.episodes.waiting()}
        # first episodes of full groups that are known to have a gradient
        self._with_signal: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether ``max_steps`` is reached: episodes are still served, none is trained any more."""
        return self._config.max_steps is not None and self.policy_version >= self._config.max_steps

    @property
    def calls_may_run(self) -> bool:
        """Strictly on-policy sessions sample nothing while a step and its hand-over run."""
        return not (self._stepping and self._config.max_staleness == 0)

    @property
    def has_groups(self) -> bool:
        """Whether a step was done, or a full group waits for one."""
        return self.policy_version > 0 or self.pending() > 0 or bool(self._full_groups())

    async def wait_for_calls(self, *, gate_s: float = GATE_S) -> None:
        """Until ``calls_may_run``. Raises NotAdmitted after ``gate_s`` seconds."""
        deadline = asyncio.get_running_loop().time() + gate_s
        while not self.calls_may_run:
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise NotAdmitted("a training step takes longer than a call may wait")
            await self._changes.wait(left_s)

    def phase(self) -> str:
        """What a runtime that waits for episodes says: how far the coming batch is, and which group
        lacks what.
        """
        groups = Counter(
            record.group_key or ""
            for record in sorted(self.waiting.values(), key=lambda each: each.seq)
        )
        return waiting_phase(
            groups, self._config.grpo_n, self._config.tasks_per_batch, is_early=self._is_early
        )

    def places(self) -> Places:
        """What the begun episodes leave of the groups that may be begun without one of them
        becoming stale."""
        return self._begun.places(
            self.waiting.values(), self._groups_under_way, self.policy_version
        )

    def pending(self) -> int:
        """Batches that are under way or could be made at once."""
        full = len(self._full_groups()) // self._config.tasks_per_batch
        return full + int(self._under_way is not None or self._stepping)

    async def add(self, record: EpisodeRecord) -> EpisodeRecord:
        """A completed training episode joins those that wait; one that is too old already becomes
        stale.
        """
        self.waiting[record.id] = record
        await self._drop_stale()
        self._changes.notify()
        return await self._journal.run(self._journal.episodes.get, record.id) or record

    async def rescore(self, rewards: Mapping[str, float], caller: str) -> EpisodesRescored:
        """Replace rewards of episodes that wait; see RewardTable. No batch is made meanwhile."""
        async with self._lock:
            done = await self._journal.run(self._journal.rewards.rescore, rewards, caller)
            waiting = await self._journal.run(self._journal.episodes.waiting)
            self.waiting |= {record.id: record for record in waiting if record.id in self.waiting}
            self._with_signal.clear()
        return done

    async def next_batch(self) -> Batch | None:
        """Wait for a full batch, journal its composition, and return it; None once ``max_steps`` is
        reached.

        A batch that was journaled but whose step is not done is returned again, first: also after a
        restart. Nothing is returned while a step runs: it could be what ``flush_batch`` gave to
        that step.
        """
        while not self.is_over:
            seen = self._changes.count
            batch = (
                None
                if self._stepping
                else await self._make(self._config.tasks_per_batch, may_wait=True)
            )
            if batch is not None and batch.step == self._under_way and not self._stepping:
                return batch
            await self._changes.wait(ON_THE_WAY_S if self._is_early else 5.0, seen)
        return None

    async def flush_batch(self) -> Batch | None:
        """A batch of whatever full groups exist now, at most ``tasks_per_batch`` of them; None if
        there is none.
        """
        return None if self.is_over else await self._make(1, may_wait=False)

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Around a step and its hand-over. Leaving it lets calls and episodes go on, whatever
        happened inside.
        """
        self._stepping = True
        try:
            yield
        finally:
            self._stepping = False
            self._changes.notify()

    async def step_done(
        self,
        step: int,
        metrics: dict[str, Any],
        before: TokenValues = NO_VALUES,
        after: TokenValues = NO_VALUES,
    ) -> None:
        """The step's weights are served: its episodes are trained, ``policy_version`` is at least
        ``step``.
        """
        await self._journal.run(self._journal.batches.step_done, step, metrics, before, after)
        self.policy_version = max(self.policy_version, step)
        self._forget(step)
        await self._drop_stale()
        self._changes.notify()

    async def step_refused(self, step: int, reason: str) -> None:
        """The step cannot be done: its episodes become stale with this reason, and its number is
        free again.
        """
        batch = await self.batch(step)
        await self._journal.run(self._journal.batches.discard, step, reason)
        self._forget(step)
        if batch is not None:
            self._events.publish(
                EpisodesDropped([episode.record for episode in batch.episodes], reason)
            )
        self._changes.notify()

    @asynccontextmanager
    async def before_next(self) -> AsyncIterator[int]:
        """The number of the next step without a batch; none gets one inside."""
        async with self._lock:
            yield (self._under_way or self.policy_version) + 1

    async def set_aside(self, step: int, groups: Sequence[Group]) -> None:
        """Groups without a gradient that were for ``step``: their episodes become stale, and they
        make no step.
        """
        ids = [[episode.record.id for episode in group.episodes] for group in groups]
        table, spread_G = self._journal.batches, [distinct_share(group) for group in groups]
        spreads = await self._journal.run(table.set_aside, step, ids, spread_G, LEVEL)
        for episode_id in chain.from_iterable(ids):
            self.waiting.pop(episode_id, None)
        self._forget(step)
        before = filter(None, [await self.step_metrics(step - back) for back in (3, 2, 1)])
        self._events.publish(GroupsSetAside(step, spreads, groups, list(before)))
        self._events.publish(
            EpisodesDropped([each.record for group in groups for each in group.episodes], LEVEL)
        )
        self._changes.notify()

    async def erase(self, record: EpisodeRecord, *, states: tuple[int, int]) -> None:
        """Take what the journal has of an episode out of it; it waits for no step any more.

        Raises NotErasable, and as ``KeptBatches`` does where its batch was pruned: nothing is
        erased then.
        """
        async with self._lock:  # no batch is made of it meanwhile
            await self._journal.run(erasable_check, self._journal.database, record, states=states)
            beside = {} if record.reason == ERASED else await self.advantages_beside(record.id)
            self.waiting.pop(record.id, None)
            self._with_signal.clear()
            await self._journal.run(episode_scrub, self._journal.database, record, beside)
            await self._journal.run(self._journal.database.rewrite)
        self._changes.notify()

    async def record_gaps(self, step: int, gaps: Mapping[str, float]) -> Batch | None:
        """Keep how far each episode is from the reference; returns the batch with it."""
        await self._journal.run(self._journal.batches.record_gaps, gaps)
        return await self.batch(step)

    def _forget(self, step: int) -> None:
        if self._under_way == step:
            self._under_way, self._groups_under_way, self._ready = None, 0, None

    async def _make(self, least_groups: int, *, may_wait: bool) -> Batch | None:
        # Shielded: a caller that stops waiting must not leave a journaled batch that no variable
        # holds.
        return await asyncio.shield(asyncio.ensure_future(self._make_now(least_groups, may_wait)))

    async def _make_now(self, least_groups: int, may_wait: bool) -> Batch | None:
        async with self._lock:
            if self._under_way is None:
                groups, step = await self._choose(), self.policy_version + 1
                is_full = len(groups) >= least_groups
                waits = is_full and may_wait
                self._is_early = waits and self._begun.step_is_early(
                    groups, self.waiting.values(), step
                )
                if not is_full or self._is_early:
                    return None
                ids = [[episode.id for episode in group] for group in groups]
                self._with_signal.clear()
                await self._journal.run(
                    self._journal.batches.record, step, ids, self.policy_version
                )
                self._under_way, self._groups_under_way = step, len(groups)
                for episode_id in chain.from_iterable(ids):
                    self.waiting.pop(episode_id, None)
            if self._ready is None:
                self._ready = await self._journal.run(self.find, self._under_way)
            return self._ready

    async def _choose(self) -> list[list[EpisodeRecord]]:
        """The groups of the next batch; with dynamic sampling those without a gradient are set
        aside on the way.
        """
        chosen: list[list[EpisodeRecord]] = []
        for records in self._full_groups():
            if len(chosen) == self._config.tasks_per_batch:
                break
            if not self._config.dynamic_sampling or await self._has_signal(records):
                chosen.append(records)
        return chosen

    def _full_groups(self) -> list[list[EpisodeRecord]]:
        limit_s = self._config.group_timeout_s
        overdue_before = None if limit_s is None else self._now() - limit_s
        return full_groups(
            list(self.waiting.values()), self._config.grpo_n, overdue_before=overdue_before
        )

    async def _has_signal(self, records: Sequence[EpisodeRecord]) -> bool:
        if records[0].id in self._with_signal:
            return True
        step = self.policy_version + 1
        group = await self._journal.run(
            group_load, self._journal, [record.id for record in records], {}
        )
        if group_has_signal(
            batch_advantages(Batch(step, self.policy_version, (group,)), self._config)[0]
        ):
            self._with_signal.add(records[0].id)
            return True
        await self.set_aside(step, [group])
        return False

    async def _drop_stale(self) -> None:
        waiting, max_staleness = list(self.waiting.values()), self._config.max_staleness
        ids = stale_episodes(
            waiting, policy_version=self.policy_version, max_staleness=max_staleness
        )
        dropped = [record for episode_id in ids if (record := self.waiting.pop(episode_id, None))]
        if ids:
            await self._journal.run(self._journal.episodes.mark_stale, ids, STALE)
            advice = stale_advice(max_staleness)
            self._events.publish(
                EpisodesDropped(dropped, STALE, f"{advice[0].upper()}{advice[1:]}.")
            )
