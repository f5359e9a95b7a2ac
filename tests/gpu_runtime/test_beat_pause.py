"""Heartbeats come as the control plane asks for them; what a runtime has to tell does not wait for
that.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpu_runtime.control_plane import agent as agent_module
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.control_plane.beat_pause import BeatPause
from gpu_runtime.health.status import QUIET_S, Phase, Status
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import runtime_config
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import PHASE_PREEMPTED, PHASE_WAITING, Orders, RuntimeStage
from tinkerscript.wire.sessions import Accounting

HEARTBEAT = "/v1/runtime/heartbeat"
AN_HOUR = {"lease_seconds": 3 * 3600.0, "heartbeat_s": 3600.0}


@asynccontextmanager
async def told_an_hour(
    tmp_path, monkeypatch, *, second_s: float
) -> AsyncIterator[tuple[FakeControlPlane, Agent]]:
    """A runtime whose next heartbeat is due in an hour; ``second_s`` is what a second is here."""
    monkeypatch.setattr(agent_module, "HEARTBEAT_S", second_s)
    with FakeControlPlane() as plane:
        plane.orders |= AN_HOUR
        async with Agent(runtime_config(plane, tmp_path)) as agent:
            agent.status.begin(Phase.WAITING, f"{PHASE_WAITING}: 1 of 8")
            await agent.register()
            await eventually(lambda: plane.bodies(HEARTBEAT))
            # for the orders to arrive: no later than what follows, on any machine
            await asyncio.sleep(0.2)
            yield plane, agent


async def test_the_next_heartbeat_comes_when_it_is_due(tmp_path, monkeypatch):
    async with told_an_hour(tmp_path, monkeypatch, second_s=0.02) as (plane, agent):
        sent = len(plane.bodies(HEARTBEAT))
        agent.status.update(accounting=Accounting(begun=2, open=2), reward_mean=0.5)
        agent.status.begin(Phase.WAITING, f"{PHASE_WAITING}: 2 of 8")
        agent.status.advance()
        await asyncio.sleep(0.3)
        assert len(plane.bodies(HEARTBEAT)) == sent
        plane.orders |= {"heartbeat_s": 0.02}
        agent.status.update(policy_version=1)
        await eventually(lambda: len(plane.bodies(HEARTBEAT)) > sent + 5)


@pytest.mark.parametrize("lease_s", [3.0, 300.0])
def test_no_server_can_ask_a_runtime_to_be_silent_for_longer_than_a_third_of_its_lease(lease_s):
    pause = BeatPause(1.0)
    pause.told(Orders(lease_seconds=lease_s, heartbeat_s=1e9))
    assert pause.pace_s == lease_s / 3


@pytest.mark.parametrize("said_s", [0.0, 0.5, 1.0])
def test_a_server_that_asks_for_less_than_a_second_is_told_each_second(said_s):
    pause = BeatPause(1.0)
    pause.told(Orders(lease_seconds=15.0, heartbeat_s=3.5))
    assert pause.pace_s == 3.5
    pause.told(Orders(lease_seconds=15.0, heartbeat_s=said_s))
    assert pause.pace_s == 1.0


async def test_what_is_news_is_told_when_the_second_is_over(tmp_path, monkeypatch):
    async with told_an_hour(tmp_path, monkeypatch, second_s=0.1) as (plane, agent):
        for sent, tell in enumerate(
            [
                lambda: agent.status.update(policy_version=1),
                lambda: agent.status.begin(Phase.TRAINING, "training step 2"),
                lambda: agent.status.begin(Phase.WAITING, PHASE_WAITING),
            ],
            start=len(plane.bodies(HEARTBEAT)) + 1,
        ):
            tell()
            await eventually(lambda: len(plane.bodies(HEARTBEAT)) >= sent)  # noqa: B023 - awaited here
    versions = [(beat["policy_version"], beat["phase"]) for beat in plane.bodies(HEARTBEAT)]
    assert (1, "training step 2") in versions and versions[-1] == (1, PHASE_WAITING)


@pytest.mark.parametrize("news", ["stage", "preemption"])
async def test_a_stage_and_a_machine_that_is_taken_away_are_told_at_once(
    tmp_path, monkeypatch, news
):
    async with told_an_hour(tmp_path, monkeypatch, second_s=3600.0) as (plane, agent):
        before = len(plane.bodies(HEARTBEAT))
        if news == "stage":
            agent.status.update(state=RuntimeStage.READY)
        else:
            agent.preempt()
        await eventually(lambda: len(plane.bodies(HEARTBEAT)) == before + 1)
        last = plane.bodies(HEARTBEAT)[-1]
        assert (
            last["state"] == "ready"
            if news == "stage"
            else last["phase"].startswith(PHASE_PREEMPTED)
        )


async def test_a_server_that_is_away_is_asked_at_the_same_pace(tmp_path, monkeypatch):
    """Thousands that ask again each second would keep one down that has just come back."""
    async with told_an_hour(tmp_path, monkeypatch, second_s=0.02) as (plane, agent):
        plane.answers[HEARTBEAT] = (502, {"not": "ours"})
        agent.status.update(policy_version=1)
        sent = len(plane.bodies(HEARTBEAT))
        await eventually(lambda: len(plane.bodies(HEARTBEAT)) == sent + 1)
        await asyncio.sleep(0.3)
        assert len(plane.bodies(HEARTBEAT)) == sent + 1
        del plane.answers[HEARTBEAT]


def test_activity_is_news_where_its_session_may_soon_count_as_idle():
    said = list[bool]()
    status = Status(said.append)
    status.update(last_activity_at=1000.0)
    status.snapshot()
    status.update(last_activity_at=1000.0 + QUIET_S)
    assert said == []
    status.update(last_activity_at=1000.1 + QUIET_S)
    assert said == [False]
    status.snapshot()
    status.update(last_activity_at=1000.2 + QUIET_S)
    assert said == [False]
    least = next(
        m.ge for m in SessionConfig.model_fields["idle_suspend_s"].metadata if hasattr(m, "ge")
    )
    assert least / 2 >= QUIET_S


def test_the_same_words_again_are_no_news():
    said = list[bool]()
    status = Status(said.append)
    status.begin(Phase.TRAINING, "training step 1")
    said.clear()
    status.begin(Phase.TRAINING, "training step 1")
    status.update(policy_version=0, state=RuntimeStage.LOADING)
    assert said == []
