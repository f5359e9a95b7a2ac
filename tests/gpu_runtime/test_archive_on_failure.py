"""A session that fails for good keeps its trajectories: the runtime with which it fails archives
them all first.
"""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest

from gpu_runtime.archive.on_failure import archive_on_failure
from gpu_runtime.errors import EngineDead, LeaseLost, PlacementImpossible
from gpu_runtime.kinds import episodes as episodes_module
from gpu_runtime.start import start
from gpu_runtime.trajectories import reporter
from support.archive_checks import check_archive, rows_in
from support.fake_control_plane import FakeControlPlane, error_body
from support.runtime_harness import runtime_config
from support.waiting import eventually


async def play_and_die(
    it, plane: FakeControlPlane, fault: type[Exception] = EngineDead, **orders
) -> None:
    """A trained batch, an episode that waits, one that is open; then the engine's process is
    gone.
    """
    await it.play_groups("a", "b")
    await it.stepped(1)
    await it.play("c", 0.5)
    await it.post("/episodes", json={"task": "open"})
    plane.orders = plane.orders | orders
    beats = len(plane.bodies("/v1/runtime/heartbeat"))
    await eventually(lambda: len(plane.bodies("/v1/runtime/heartbeat")) >= beats + 2)
    it.engine.dead = True
    with pytest.raises(fault):
        await asyncio.wait_for(it.task, 25)


async def test_all_that_ended_is_archived_by_the_runtime_with_which_the_session_fails(
    plane, runtime
) -> None:
    async with runtime(plane) as it:
        await play_and_die(it, plane, last_try=True)
        assert sorted(check_archive(plane, it.volume).values()) == ["trained"] * 4 + ["waiting"]
    (ended,) = [
        entry["data"]
        for entry in plane.entries.values()
        if entry["data"].get("name") == "runtime_fault"
    ]
    assert ended["code"] == "engine_dead"


async def test_what_waits_is_left_to_the_next_runtime_where_there_is_one(plane, runtime) -> None:
    async with runtime(plane) as it:
        await play_and_die(it, plane)
        assert rows_in(plane) == []


@pytest.mark.system  # it waits on real clocks
async def test_a_store_that_takes_nothing_does_not_hide_the_fault_nor_hold_it_up(
    plane, runtime, monkeypatch
) -> None:
    monkeypatch.setattr(
        episodes_module, "archive_on_failure", partial(archive_on_failure, timeout_s=0.5)
    )
    monkeypatch.setattr(reporter, "FAREWELL_S", 0.5)
    async with runtime(plane) as it:
        plane.answers["/v1/runtime/uploads"] = (503, error_body("storage_unavailable"))
        await play_and_die(it, plane, last_try=True)
        assert rows_in(plane) == []


async def test_a_runtime_that_lost_its_lease_archives_nothing_even_then(plane, runtime) -> None:
    plane.orders = plane.orders | {"last_try": True}
    async with runtime(plane) as it:
        await it.play("a", 1.0)
        plane.answers["/v1/runtime/heartbeat"] = (409, error_body("stale_lease"))
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(it.task, 25)
    assert plane.uploads == {}


async def test_a_session_whose_machine_lost_its_devices_fails_with_all_archived(
    plane, runtime, monkeypatch
) -> None:
    async with runtime(plane) as it:
        await it.play("a", 1.0)
        await it.end("suspend")
        assert rows_in(plane) == []
    plane.orders = plane.orders | {"stop": None}

    @asynccontextmanager
    async def impossible(*_):
        raise PlacementImpossible("no two devices")
        yield

    monkeypatch.setattr(episodes_module, "open_engine_and_trainer", impossible)
    await asyncio.wait_for(start(runtime_config(plane, it.volume)), 25)
    assert list(check_archive(plane, it.volume).values()) == ["waiting"]
    (failed,) = plane.bodies("/v1/runtime/fail")
    assert failed["code"] == "placement_impossible"
