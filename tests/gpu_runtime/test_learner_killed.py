"""SIGKILL at every write and every call of a step: the next runtime ends with the bits of one that
was never killed.
"""

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpu_runtime.journal.journal import Journal
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import learner_open, plane_assign, trained_steps, volume_fill

pytestmark = pytest.mark.system

# A real process for each life, forked so that it costs no start-up: SIGKILL runs no `finally`.
FORK = multiprocessing.get_context("fork")
LIFE_S = 60.0
STEPS = 2
# The points of one upload and of what is written down about it: the episodes of two steps go up as
# one part where the second step ends before the first one's upload begins, which the machine
# decides.
UPLOAD_POINTS = 5


@dataclass
class Ticks:
    """Counts the points that a life reaches, from any thread, and kills it at number
    ``kill_at``.
    """

    kill_at: int | None
    points: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tick(self, point: str) -> None:
        with self.lock:
            self.points.append(point)
            if len(self.points) == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    async def reach(self, point: str) -> None:
        """Ends alone: nothing is written between the end of one thing and the beginning of the
        next.
        """
        if point.endswith("done"):
            self.tick(point)

    def statement(self, sql: str) -> None:
        """COMMIT alone: SQLite keeps nothing of a transaction before it."""
        if sql == "COMMIT":
            self.tick(sql)


async def live(plane: FakeControlPlane, volume: Path, ticks: Ticks) -> None:
    """Restore and train until ``max_steps`` is reached, as the runtime's loop does."""
    async with learner_open(plane, volume, reach=ticks.reach) as it:
        it.journal.database.connection.set_trace_callback(ticks.statement)
        call, report = it.agent.call, it.agent.report

        async def call_and_tick(path, *arguments, **options):
            ticks.tick(f"call {path}")
            answer = await call(path, *arguments, **options)
            ticks.tick(f"answered {path}")
            return answer

        def report_and_tick(*arguments, **options) -> None:
            ticks.tick("report")
            report(*arguments, **options)

        it.agent.call, it.agent.report = call_and_tick, report_and_tick
        await it.learner.restore()
        while (batch := await it.batches.next_batch()) is not None:
            with it.batches.stepping():
                await it.learner.train(batch)
        await it.checkpoints.settle()
        (volume / "points.json").write_text(json.dumps(ticks.points))
        (volume / "weights").write_text(it.trainer.weights)


def life(plane: FakeControlPlane, volume: Path, kill_at: int | None = None) -> int | None:
    """The exit code of one runtime's life."""

    def begin() -> None:
        asyncio.run(live(plane, volume, Ticks(kill_at)))

    process = FORK.Process(target=begin)
    process.start()
    process.join(LIFE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode


def plane_open() -> FakeControlPlane:
    plane = FakeControlPlane(part_size_bytes=1 << 20)
    plane_assign(plane, tasks_per_batch=1, checkpoint_every_steps=1, max_steps=STEPS)
    return plane


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A volume with one group of episodes too many, which no runtime has seen."""
    volume = tmp_path_factory.mktemp("untouched")
    volume_fill(volume, "abc")
    return volume


@pytest.mark.parametrize(
    "apart",
    [pytest.param(30, marks=pytest.mark.smoke), 5, pytest.param(1, marks=pytest.mark.nightly)],
    ids=["each thirtieth", "each fifth", "each"],
)
def test_a_kill_at_any_point_costs_no_episode_and_no_bit(
    untouched: Path, tmp_path: Path, apart: int
) -> None:
    whole = shutil.copytree(untouched, tmp_path / "whole")
    with plane_open() as plane:
        assert life(plane, whole) == 0
    expected = (whole / "weights").read_text()
    points = json.loads((whole / "points.json").read_text())
    assert {
        "COMMIT",
        "optim_step 2 done",
        "report",
        "save_state done",
        "call /v1/runtime/uploads",
    } <= set(points)
    for kill_at, point in list(enumerate(points, start=1))[::apart]:
        volume = shutil.copytree(untouched, tmp_path / f"{kill_at}")
        with plane_open() as plane:
            ended = life(plane, volume, kill_at)
            assert ended == -signal.SIGKILL or (
                ended == 0 and kill_at > len(points) - UPLOAD_POINTS
            ), (ended, point)
            assert life(plane, volume) == 0, point
            assert (volume / "weights").read_text() == expected, point
            check_record(plane, volume, point, expected)


def check_record(plane: FakeControlPlane, volume: Path, point: str, expected: str) -> None:
    journal = Journal(volume / "journal.sqlite3")
    try:
        assert trained_steps(journal) == {
            "a0": 1,
            "a1": 1,
            "b0": 2,
            "b1": 2,
            "c0": None,
            "c1": None,
        }, point
        accounting = journal.episodes.accounting()
        assert accounting.balances and (accounting.trained, accounting.waiting) == (4, 2), point
    finally:
        journal.close()
    steps = [entry["data"]["step"] for entry in plane.entries.values() if entry["kind"] == "metric"]
    assert steps == [1, 2], point
    last = max(
        (u for u in plane.uploads.values() if u["kind"] == "state" and u["committed"]),
        key=lambda u: u["step"],
    )
    state = json.loads(plane.objects[f"{last['checkpoint_id']}/state.json"])
    assert (state["weights"], state["steps"]) == (expected, [1, 2]), point
