"""A machine that is taken away with notice: what was acknowledged and the weights are stored before
it is gone.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from gpu_runtime import __main__ as main_module
from gpu_runtime.control_plane import agent as agent_module
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.kinds import episodes, tinker
from gpu_runtime.processes.starting import VARIABLE
from gpu_runtime.start import start
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.training.ranks import RankProcesses
from support.fake_control_plane import FakeControlPlane
from support.idle_rank import idle_rank
from support.runtime_harness import learner_open, runtime_config, upload_committed, volume_fill
from support.tinker_fakes import FakeModelTrainer, FakeSamplerEngine
from support.tinker_harness import KEY, MODEL, step, training
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import PHASE_PREEMPTED, CheckpointOrder, StopReason

HEARTBEAT = "/v1/runtime/heartbeat"


def hold_at(wanted: str, held: asyncio.Event, reached: list[str]):
    """A fake's ``reach`` that waits at one point."""

    async def reach(point: str) -> None:
        reached.append(point)
        if point == wanted:
            await held.wait()

    return reach


@pytest.mark.system
async def test_journal_and_state_are_stored_and_the_session_goes_on_elsewhere(
    plane, runtime, tmp_path: Path
) -> None:
    """The journal at once, though a step runs; then the state of that step."""
    async with runtime(plane) as it:
        held, reached = asyncio.Event(), []
        it.trainer.reach = hold_at("optim_step 1", held, reached)
        await it.play_groups("a", "b")
        await eventually(lambda: "optim_step 1" in reached)
        it.agents[0].preempt()
        await upload_committed(plane, kind="journal")
        assert not held.is_set(), "the journal did not wait for the step"
        held.set()
        await asyncio.wait_for(it.task, 60)
        weights = it.trainer.weights
    assert plane.bodies(HEARTBEAT)[-1]["phase"].startswith(PHASE_PREEMPTED)
    assert (await upload_committed(plane, kind="state"))["step"] == 1
    it.volume.rename(tmp_path / "lost")
    async with runtime(plane) as it:
        assert it.trainer.weights == weights and it.engine.version == 1
        await it.play_groups("c", "d")
        await it.stepped(2)
        await eventually(lambda: it.status["accounting"]["trained"] == 8)
        await it.end()


@pytest.mark.parametrize("how", ["suspend", "stop"])
async def test_where_an_end_was_ordered_already_the_journal_is_stored_before_what_takes_long(
    plane, runtime, how: str
) -> None:
    async with runtime(plane) as it:
        await it.play("a", 1.0)
        held, reached = asyncio.Event(), []
        it.trainer.reach = hold_at("save_state", held, reached)
        plane.orders = plane.orders | {"stop": how}
        if how == "suspend":
            await eventually(lambda: "save_state" in reached)
            assert not [upload for upload in plane.uploads.values() if upload["kind"] == "journal"]
            it.agents[0].preempt()
            await upload_committed(plane, kind="journal")
            held.set()
        else:
            await eventually(it.agents[0].stop_requested.is_set)
            it.agents[0].preempt()
        assert it.agents[0].stop_reason == StopReason(how), "what was ordered stands"
        await asyncio.wait_for(it.task, 60)
    states = [upload for upload in plane.uploads.values() if upload["kind"] == "state"]
    assert len(states) == (1 if how == "suspend" else 0)


async def test_no_step_and_no_order_is_begun_any_more(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    volume_fill(tmp_path, ["a", "b"])
    async with learner_open(plane, tmp_path) as it:
        await it.learner.restore()
        full = await it.batches.next_batch()
        assert full is not None

        async def at_once():
            return full

        it.batches.next_batch = at_once
        it.agent.checkpoint_orders.put_nowait(CheckpointOrder(checkpoint_id="ckp_1", kind="model"))
        it.agent.preempt()
        await asyncio.wait_for(episodes.work(it.agent, it.batches, it.learner, it.checkpoints), 25)
        assert it.points == []


async def test_a_model_that_is_ordered_is_left_to_the_next_runtime_between_two_steps(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    volume_fill(tmp_path, ["a", "b", "c", "d"])
    async with learner_open(plane, tmp_path) as it:
        await it.learner.restore()

        async def taken_away(point: str) -> None:
            it.points.append(point)
            if point == "optim_step 1":
                it.agent.preempt()

        it.trainer.reach = taken_away
        order = CheckpointOrder(checkpoint_id="ckp_1", kind="model")
        await asyncio.wait_for(
            episodes.fulfil(it.agent, order, it.batches, it.learner, it.checkpoints), 25
        )
        assert (it.reached("optim_step"), it.reached("export_model")) == (1, 0)


async def test_the_models_of_a_tinker_session_are_saved_on_its_volume(
    plane: FakeControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime on the same volume does nothing again."""
    plane.answers["/v1/runtime/register"] = lambda _: (200, plane.assignment() | {"kind": "tinker"})
    monkeypatch.setattr(agent_module, "HEARTBEAT_S", 0.1)
    trainers: list[FakeModelTrainer] = []

    @asynccontextmanager
    async def fakes(_: object) -> AsyncIterator[tuple[FakeSamplerEngine, FakeModelTrainer]]:
        trainers.append(FakeModelTrainer())
        yield FakeSamplerEngine(), trainers[-1]

    monkeypatch.setattr(tinker, "open_sampler_and_trainer", fakes)

    async def lived(work) -> None:
        agents: list[Agent] = []
        before = len(plane.bodies(HEARTBEAT))
        task = asyncio.create_task(start(runtime_config(plane, tmp_path), on_agent=agents.append))
        address = lambda: any(beat["address"] for beat in plane.bodies(HEARTBEAT)[before:])  # noqa: E731
        await eventually(lambda: task.done() or address())
        url = f"http://{plane.bodies(HEARTBEAT)[-1]['address']}"
        async with httpx.AsyncClient(base_url=url, headers=KEY, timeout=60) as http:
            await work(http)
        agents[0].preempt()
        await asyncio.wait_for(task, 60)

    async def train(http: httpx.AsyncClient) -> None:
        model = {"model_id": MODEL, "base_model": "tiny", "lora": {"rank": 8}}
        await http.post("/tinker/models", json=model)
        await http.post("/api/v1/forward_backward", content=training(1))
        promise = (await http.post("/api/v1/optim_step", json=step(2))).json()
        done = await http.post(
            "/api/v1/retrieve_future", json={"request_id": promise["request_id"]}
        )
        assert done.json()["metrics"] == {"grad_norm": 1.0}

    async def look(_: httpx.AsyncClient) -> None:
        await asyncio.sleep(0)

    await lived(train)
    await lived(look)
    first, second = trainers
    assert first.calls[-1] == f"save_state {MODEL}"
    assert second.calls[:2] == [f"create_model {MODEL}", f"load_state {MODEL}"]
    assert second.models[MODEL]["weights"] == first.models[MODEL]["weights"] != "base"
    assert not [
        call for call in second.calls if call.startswith(("forward_backward", "optim_step"))
    ]


async def test_an_end_that_is_faster_than_a_heartbeat_says_why_it_came(
    plane: FakeControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "HEARTBEAT_S", 60.0)
    async with Agent(runtime_config(plane, tmp_path)) as agent:
        await agent.register()
        await eventually(lambda: plane.bodies(HEARTBEAT))
        agent.preempt()
    assert plane.bodies(HEARTBEAT)[-1]["phase"].startswith(PHASE_PREEMPTED)


@pytest.mark.parametrize(
    ("notice_s", "signals"),
    [
        (50, ["TERM"]),
        (50, ["pod", "TERM"]),
        (50, ["TERM", "TERM"]),
        (50, ["TERM", "INT"]),
        (50, ["INT"]),
        (0, ["TERM"]),
    ],
    ids=[
        "notice",
        "after another pod's",
        "then at once",
        "then told to end",
        "told to end",
        "none",
    ],
)
async def test_a_sigterm_with_notice_lets_the_runtime_end_and_any_other_is_the_end(
    plane: FakeControlPlane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    notice_s: int,
    signals: list[str],
) -> None:
    config = replace(runtime_config(plane, tmp_path), notice_s=notice_s)
    agent = Agent(config)

    async def until_told(_, *, hard_exit: bool, on_agent) -> None:
        on_agent(agent)
        for name in signals:
            if name == "pod":
                agent.preempt()
            else:
                os.kill(os.getpid(), getattr(signal, f"SIG{name}"))
            await agent.preempted.wait()
        if len(signals) > 1 and "pod" not in signals:
            await asyncio.Event().wait()
        await asyncio.sleep(0.1)  # a signal that was sent is handled

    lasting = [(50, ["TERM"]), (50, ["pod", "TERM"])]
    monkeypatch.setattr(main_module, "start", until_told)
    task = asyncio.create_task(main_module.until_terminated(config))
    try:
        await asyncio.wait({task}, timeout=25)
        assert task.cancelled() if (notice_s, signals) not in lasting else task.result() is True
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.system
@pytest.mark.parametrize("notice_s", ["50", "0"])
async def test_the_notice_ends_no_rank_where_every_process_is_given_it(
    monkeypatch, notice_s: str
) -> None:
    monkeypatch.setenv(VARIABLE, notice_s)
    ranks = RankProcesses(RankSpec("", SessionConfig(), 0, 1, "", "cpu", 1), idle_rank)
    try:
        await ranks.ready()
        os.kill(ranks.processes[0].pid, signal.SIGTERM)
        await asyncio.to_thread(ranks.processes[0].join, 0.3 if notice_s == "50" else 10)
        assert ranks.dead == (notice_s == "0")
    finally:
        await ranks.close()
    assert ranks.dead
