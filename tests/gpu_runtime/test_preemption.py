"""A machine that is taken away with notice: what was acknowledged and the weights are stored before it is gone."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runtime import __main__ as main_module
from gpu_runtime.control_plane.agent import Agent
from support.fake_control_plane import FakeControlPlane
from support.runtime_harness import runtime_config, upload_committed
from support.waiting import eventually


async def test_journal_and_state_are_stored_and_the_session_goes_on_elsewhere(plane, runtime, tmp_path: Path) -> None:
    """The journal at once, though a step runs; then the state of that step."""
    async with runtime(plane) as it:
        held, reached = asyncio.Event(), []

        async def hold(point: str) -> None:
            reached.append(point)
            if point == "optim_step 1":
                await held.wait()

        it.trainer.reach = hold
        await it.play_groups("a", "b")
        await eventually(lambda: "optim_step 1" in reached)
        it.agents[0].preempt()
        await upload_committed(plane, kind="journal")
        assert not held.is_set(), "the journal did not wait for the step"
        held.set()
        await asyncio.wait_for(it.task, 20)
        weights = it.trainer.weights
    assert (await upload_committed(plane, kind="state"))["step"] == 1
    it.volume.rename(tmp_path / "lost")
    async with runtime(plane) as it:
        assert it.trainer.weights == weights and it.engine.version == 1
        await it.play_groups("c", "d")
        await it.stepped(2)
        await eventually(lambda: it.status["accounting"]["trained"] == 8)
        await it.end()


@pytest.mark.parametrize(("notice_s", "signals"), [(50, 1), (50, 2), (0, 1)], ids=["notice", "then at once", "none"])
async def test_a_sigterm_with_notice_lets_the_runtime_end_and_any_other_is_the_end(
    plane: FakeControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notice_s: int, signals: int
) -> None:
    config = replace(runtime_config(plane, tmp_path), notice_s=notice_s)
    agent = Agent(config)

    async def until_told(_, *, hard_exit: bool, on_agent) -> None:
        on_agent(agent)
        os.kill(os.getpid(), signal.SIGTERM)
        await agent.preempted.wait()
        if signals == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    monkeypatch.setattr(main_module, "start", until_told)
    task = asyncio.create_task(main_module.until_terminated(config))
    try:
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled() if (notice_s, signals) != (50, 1) else task.result() is True
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
