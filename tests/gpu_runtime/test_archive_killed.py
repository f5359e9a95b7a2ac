"""SIGKILL after every write and every call of a publication, with and without the loss of the
volume.
"""

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpu_runtime.archive import parts as archive_parts
from gpu_runtime.archive.archive import Archive
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.journal.journal import Journal
from gpu_runtime.object_store.journal_replica import JournalReplica
from gpu_runtime.object_store.uploads import ObjectStore
from gpu_runtime.session import Session
from support.archive_checks import check_archive
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import episode_complete, plane_assign, runtime_config

pytestmark = pytest.mark.system

FORK = multiprocessing.get_context("fork")
LIFE_S = 60.0


@dataclass
class Ticks:
    """Counts the points that a life reaches and kills it at number ``kill_at``."""

    kill_at: int | None
    points: list[str] = field(default_factory=list)

    def tick(self, point: str) -> None:
        self.points.append(point)
        if len(self.points) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def episodes_add(journal: Journal, names: str) -> None:
    """Of each name an abandoned episode, an evaluated one and one that waits, unless they are
    there.
    """
    for name in names:
        if journal.episodes.get(f"{name}-abandoned") is None:
            journal.episodes.begin(f"{name}-abandoned", task=name, eval=False, deadline_at=2e9)
            journal.episodes.abandon(f"{name}-abandoned", "why")
        if journal.episodes.get(f"{name}-waits") is None:
            episode_complete(journal, f"{name}-waits", task=name, reward=0.5)


async def live(plane: FakeControlPlane, volume: Path, ticks: Ticks) -> None:
    """A life of two publications, as of a checkpoint and of the end, and episodes in between."""
    archive_parts.PART_EPISODES = 3
    config = runtime_config(plane, volume)
    async with Agent(config) as agent:
        session = Session(agent, await agent.register(), config, ObjectStore(agent))
        journal = await session.journal_open()
        call = agent.call

        async def call_and_tick(path, *arguments, **options):
            answer = await call(path, *arguments, **options)
            ticks.tick(f"answered {path}")
            return answer

        agent.call = call_and_tick
        archive = Archive(session, journal, JournalReplica(session.store, journal, volume))
        episodes_add(journal, "abc")
        journal.database.connection.set_trace_callback(
            lambda sql: ticks.tick(sql) if sql == "COMMIT" else None
        )
        await archive.publish()
        journal.database.connection.set_trace_callback(None)
        episodes_add(journal, "d")
        journal.database.connection.set_trace_callback(
            lambda sql: ticks.tick(sql) if sql == "COMMIT" else None
        )
        await archive.publish(everything=True)
        journal.close()
    (volume / "points.json").write_text(json.dumps(ticks.points))


def life(plane: FakeControlPlane, volume: Path, kill_at: int | None = None) -> int | None:
    """The exit code of one runtime's life."""
    volume.mkdir(exist_ok=True)
    process = FORK.Process(target=lambda: asyncio.run(live(plane, volume, Ticks(kill_at))))
    process.start()
    process.join(LIFE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode


@pytest.mark.parametrize("lost", [False, True], ids=["on its volume", "without its volume"])
@pytest.mark.parametrize(
    "apart",
    [pytest.param(20, marks=pytest.mark.smoke), 5, pytest.param(1, marks=pytest.mark.nightly)],
    ids=["each twentieth", "each fifth", "each"],
)
def test_a_kill_at_any_point_leaves_every_episode_in_one_part(
    tmp_path: Path, lost: bool, apart: int
) -> None:
    with FakeControlPlane(part_size_bytes=1 << 20) as plane:
        plane_assign(plane)
        assert life(plane, tmp_path / "whole") == 0
        whole = check_archive(plane, tmp_path / "whole")
    assert sorted(whole.values()) == ["abandoned"] * 4 + ["waiting"] * 4
    points = json.loads((tmp_path / "whole" / "points.json").read_text())
    assert points.count("COMMIT") > 6 and points.count("answered /v1/runtime/uploads") == 2 + 3
    for kill_at, point in list(enumerate(points, start=1))[::apart]:
        volume = tmp_path / f"{kill_at}"
        with FakeControlPlane(part_size_bytes=1 << 20) as plane:
            plane_assign(plane)
            assert life(plane, volume, kill_at) == -signal.SIGKILL, point
            if lost:
                shutil.rmtree(volume)
            assert life(plane, volume) == 0, point
            assert check_archive(plane, volume) == whole, point
            check_parts(plane, point)


def check_parts(plane: FakeControlPlane, point: str) -> None:
    """A part that was uploaded again is the same, byte for byte: no reader sees it change."""
    seen: dict[int, str] = {}
    for upload in plane.uploads.values():
        if upload["kind"] == "archive" and upload["committed"]:
            sha256 = upload["files"][0]["sha256"]
            assert seen.setdefault(upload["part"], sha256) == sha256, point
