"""Any number of runners, any order of completion: the server begins no more than it can train in
time."""

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_runtime.episodes import admission_queue
from gpu_runtime.episodes.grouping import Begun, Places, begun_groups, step_is_early
from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.episodes.open_episodes import LIVE_S, OpenEpisode
from gpu_runtime.events import Events
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from support.gateway_harness import make_assignment
from support.generated import any_speed
from support.waiting import FakeClock
from tinkerscript.wire.episodes import EpisodeBegin, EpisodeBegun, WorkflowOutput
from tinkerscript.wire.sessions import Accounting


class DirectJournal(Journal):
    """Its calls in place, so that a run is the same each time."""

    async def run(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return call(*args, **options)


@dataclass
class World:
    """Runners that take ``tasks`` in order, a trainer, and chance, which decides who acts next."""

    episodes: Episodes
    clock: FakeClock
    chance: random.Random
    tasks: list[str]
    runners: int
    failing: float  # the share of attempts that are abandoned
    bound: int  # of a batch, in episodes
    max_staleness: int
    beginning: list[asyncio.Task[EpisodeBegun]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)  # no call yet
    # and the version at which the call began
    sampling: list[tuple[str, int]] = field(default_factory=list)
    played: list[str] = field(default_factory=list)
    step: tuple[int, ExitStack] | None = None

    def acts(self) -> list[Callable[[], Any]]:
        """What can happen now."""
        idle = self.runners - sum(
            map(len, (self.beginning, self.begun, self.sampling, self.played))
        )
        found: list[Callable[[], Any]] = []
        found += [self.begin] * bool(idle and self.tasks)
        found += [self.call] * bool(self.begun and self.episodes.batches.calls_may_run)
        found += [self.answer] * bool(self.sampling) + [self.end] * bool(self.played)
        return found + [self.trained] * (self.step is not None)

    def begin(self) -> None:
        request = EpisodeBegin(task=self.tasks.pop(0))
        self.beginning.append(asyncio.ensure_future(self.episodes.begin(request, hold_s=1e9)))

    async def call(self) -> None:
        name = _any_of(self.begun, self.chance)
        await self.episodes.recorder.wait_to_sample(self._open(name))
        self.sampling.append((name, self.episodes.batches.policy_version))

    async def answer(self) -> None:
        name, version = _any_of(self.sampling, self.chance)
        answer = Completion(0, (3,), (-1.0,), (version,), "x", "stop", {})
        call = CallRecord(f"c-{name}", name, (1, 2), (answer,), 0.0, 0.0)
        await self.episodes.recorder.record(self._open(name), call, parent_prefix_length=0)
        self.played.append(name)

    def _open(self, name: str) -> OpenEpisode:
        episode = self.episodes.open.get(name)
        assert episode is not None
        return episode

    async def end(self) -> None:
        name = _any_of(self.played, self.chance)
        if self.chance.random() < self.failing:
            await self.episodes.abandon(name, "failed")
        else:
            await self.episodes.end(name, WorkflowOutput(reward=self.chance.random()))

    async def trained(self) -> None:
        assert self.step is not None
        number, stepping = self.step
        await self.episodes.batches.step_done(number, {})
        stepping.close()
        self.step = None

    async def settle(self) -> None:
        """Until every task that could go on has done so."""
        for _ in range(12):
            await asyncio.sleep(0)
        for task in [each for each in self.beginning if each.done()]:
            self.beginning.remove(task)
            self.begun.append(task.result().episode_id)

    async def run(self) -> Accounting:
        """To the end of all tasks. Raises AssertionError where nothing goes on, or too much is
        begun."""
        batches, batch, still = self.episodes.batches, None, 0
        try:
            while True:
                batch = batch or asyncio.ensure_future(batches.next_batch())
                await self.settle()
                if self.step is None and batch.done():
                    stepping = ExitStack()
                    stepping.enter_context(batches.stepping())
                    self.step, batch = (batch.result().step, stepping), None
                acts = self.acts()
                if acts:
                    still = 0
                    done = self.chance.choice(acts)()
                    await done if done is not None else None
                elif not self.tasks and not self.beginning and batches.pending() == 0:
                    return await self.episodes.accounting()
                else:  # only time goes on
                    still += 1
                    assert still < 40, (
                        f"nothing goes on: {batches.phase()}, {len(self.beginning)} begins wait"
                    )
                    self.clock.now += 1.0
                    self.episodes._changes.notify()  # noqa: SLF001 - as the time of the loop would
                self.check(await self.episodes.accounting())
        finally:
            for task in [*self.beginning, *([batch] if batch else [])]:
                task.cancel()
            await asyncio.gather(
                *self.beginning, *([batch] if batch else []), return_exceptions=True
            )

    def check(self, found: Accounting) -> None:
        kept = found.trained + found.waiting + found.open
        assert found.begun == kept + found.stale + found.abandoned
        most = (self.episodes.batches.policy_version + 1 + self.max_staleness) * self.bound
        assert self.failing or kept <= most, f"{kept} are begun and not dropped, {most} may be"


def played(
    seed: int,
    runners: int,
    grpo_n: int,
    tasks_per_batch: int,
    max_staleness: int,
    tasks: list[str],
    failing: float = 0,
) -> Accounting:
    """What became of every attempt at ``tasks``."""
    size = {"grpo_n": grpo_n, "tasks_per_batch": tasks_per_batch, "max_staleness": max_staleness}
    clock = FakeClock(1000.0)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission_queue, "SORT_S", 0.0)
        journal = DirectJournal(Path(folder, "journal.sqlite3"), min_free_bytes=0)
        journal.database.connection.execute("PRAGMA synchronous = OFF")
        episodes = Episodes(journal, make_assignment(**size), now=clock, events=Events())
        bound = grpo_n * tasks_per_batch
        world = World(
            episodes, clock, random.Random(seed), tasks, runners, failing, bound, max_staleness
        )
        try:
            return asyncio.run(world.run())
        finally:
            journal.close()


def _any_of(names: list[Any], chance: random.Random) -> Any:
    return names.pop(chance.randrange(len(names)))


sizes = {
    "seed": st.integers(0, 2**32),
    "grpo_n": st.integers(2, 4),
    "tasks_per_batch": st.integers(1, 3),
}
staleness, runners = st.integers(0, 2), st.integers(1, 14)


@pytest.mark.smoke
@any_speed
@given(
    **sizes, max_staleness=staleness, runners=runners, batches=st.integers(1, 3), same=st.booleans()
)
@example(seed=0, grpo_n=4, tasks_per_batch=2, max_staleness=1, runners=8, batches=3, same=False)
def test_no_ended_episode_is_dropped_where_all_complete(
    seed: int,
    grpo_n: int,
    tasks_per_batch: int,
    max_staleness: int,
    runners: int,
    batches: int,
    same: bool,
) -> None:
    """``same``: every attempt is at one task."""
    names = [
        f"t{0 if same else number}"
        for number in range(batches * tasks_per_batch)
        for _ in range(grpo_n)
    ]
    found = played(seed, runners, grpo_n, tasks_per_batch, max_staleness, names)
    assert (found.trained, found.stale) == (batches * tasks_per_batch * grpo_n, 0)


@pytest.mark.system
@any_speed
@given(**sizes, max_staleness=staleness, runners=runners, order=st.randoms(use_true_random=False))
def test_tasks_in_any_order_and_attempts_that_fail_hold_nothing_up(
    seed: int,
    grpo_n: int,
    tasks_per_batch: int,
    max_staleness: int,
    runners: int,
    order: random.Random,
) -> None:
    names = [f"t{number}" for number in range(6) for _ in range(grpo_n)]
    order.shuffle(names)
    found = played(seed, runners, grpo_n, tasks_per_batch, max_staleness, names, failing=0.2)
    assert (found.begun, found.open) == (6 * grpo_n, 0)


@pytest.mark.parametrize("max_staleness", [0, 1, 2])
def test_eight_runners_lose_no_episode(max_staleness: int) -> None:
    """One course of the property above."""
    names = [f"t{number}" for number in range(4) for _ in range(3)]
    found = played(7, 8, 3, 2, max_staleness, names)
    assert (found.trained, found.stale) == (12, 0)


def test_attempts_at_begun_tasks_find_a_place_and_others_do_not() -> None:
    episodes = [Begun("1", "a", 0, is_open=True), Begun("2", "b", 0, is_open=False)]
    places = Places(groups=2, grpo_n=2, episodes=episodes)
    assert places.admit("a") and places.admit("b") and not places.admit("c")
    assert places.admit(None), "its first prompt may be that of a or b"
    unknown = [Begun(str(number), None, 0, is_open=True) for number in range(2)]
    assert not Places(2, 2, [*episodes, *unknown]).admit(None)


def test_step_waits_for_the_open_episode_that_it_would_make_stale_and_for_no_other() -> None:
    size = {"grpo_n": 1, "batch_groups": 2, "max_staleness": 1}
    young = [Begun("1", "a", 1, is_open=False), Begun("2", "b", 1, is_open=False)]
    assert step_is_early(young, [Begun("3", "c", 0, is_open=True)], step=2, **size)
    assert not step_is_early(young, [Begun("3", "c", 1, is_open=True)], step=2, **size)
    alone = Begun("3", "c", 0, is_open=False)
    assert not step_is_early(young, [alone], step=2, **(size | {"grpo_n": 2})), (
        "no one plays the rest of its group"
    )
    assert begun_groups([alone], 2, {"c"})[0].can_fill


async def test_a_client_whose_call_is_sampled_is_there_however_long_that_takes() -> None:
    episode = OpenEpisode("epi_1", False, "t", begun_at=0.0, deadline_at=1e9, last_seen=0.0)
    assert [episode.is_live(at) for at in (LIVE_S - 1, LIVE_S)] == [True, False]
    sampling = asyncio.create_task(asyncio.sleep(0))
    episode.calls.add(sampling)
    assert episode.is_live(100 * LIVE_S)
    await sampling
