"""Calls are served before the trainer has loaded; nothing is trained, saved or handed over before
the two agree.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from gpu_runtime.engine import replicas
from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.errors import EngineTrainerMismatch
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.steps.comparison import Comparison
from support.fakes import FakeEngine
from support.light_tokenizer import LightTokenizer
from support.runtime_harness import running, upload_committed
from support.waiting import eventually
from tinkerscript.wire.runtime import PHASE_WAITING


@pytest.fixture
async def held() -> tuple[Comparison, asyncio.Event]:
    """One that passes once the event is set."""
    passes, comparison = asyncio.Event(), Comparison()

    async def work() -> None:
        await passes.wait()

    comparison.begin(work())
    return comparison, passes


async def test_a_session_serves_while_its_trainer_loads_and_trains_once_it_has(
    plane, tmp_path: Path, model: Path, monkeypatch, held
) -> None:
    comparison, passes = held
    async with running(plane, tmp_path / "volume", model, monkeypatch, comparison=comparison) as it:
        await it.ready()
        await eventually(lambda: it.status["phase"].startswith(PHASE_WAITING))
        await eventually(lambda: it.status["phase"].endswith("; the trainer is loading"))
        await it.play_groups("a", "b")
        await eventually(lambda: it.status["phase"] == "loading the trainer")
        assert it.trainer.weights == "base" and it.status["policy_version"] == 0
        passes.set()
        await it.stepped(1)
        await eventually(lambda: it.status["phase"] == PHASE_WAITING)
        await it.end()


async def test_a_session_that_is_suspended_while_its_trainer_loads_saves_what_it_has(
    plane, tmp_path: Path, model: Path, monkeypatch, held
) -> None:
    comparison, passes = held
    async with running(plane, tmp_path / "volume", model, monkeypatch, comparison=comparison) as it:
        await it.ready()
        await it.play("a", 1.0)
        ending = asyncio.create_task(it.end("suspend"))
        await eventually(lambda: it.status["state"] == "stopping")
        assert not plane.uploads, "the weights that the trainer has may be the rehearsal's"
        passes.set()
        await ending
    assert (await upload_committed(plane, kind="state"))["step"] == 0


async def test_a_trainer_loads_the_state_once_the_engine_has_its_weights() -> None:
    comparison, order = Comparison(resumes=True), list[str]()

    async def load() -> None:
        order.append("the state is loaded")

    async def work() -> None:
        order.append("the trainer is there")
        await comparison.resumed()
        order.append("they are compared")

    comparison.begin(work())
    await eventually(lambda: order == ["the trainer is there"])
    comparison.resume_by(load)
    await comparison.passed()
    assert order[1:] == ["the state is loaded", "they are compared"]


async def test_a_difference_that_is_found_after_calls_were_served_fails_the_session(
    plane, tmp_path: Path, model: Path, monkeypatch
) -> None:
    differ, comparison = asyncio.Event(), Comparison()

    async def work() -> None:
        await differ.wait()
        raise EngineTrainerMismatch("they differ")

    comparison.begin(work())
    async with running(plane, tmp_path / "volume", model, monkeypatch, comparison=comparison) as it:
        await it.ready()
        await it.play_groups("a", "b")
        differ.set()
        await asyncio.wait_for(it.task, 25)
        [failure] = plane.bodies("/v1/runtime/fail")
        assert (failure["code"], failure["cause"]) == ("engine_trainer_mismatch", "they differ")
        assert it.trainer.weights == "base"


async def test_no_call_is_sampled_while_the_engine_has_other_weights(model: Path) -> None:
    calls = Replicas([FakeEngine(LightTokenizer(model))])
    order: list[str] = []

    async def call(name: str) -> None:
        async for _ in calls.generate(name, [1, 2], SamplingOptions(max_tokens=3)):
            order.append(name)

    first = calls.generate("first", [1, 2], SamplingOptions(max_tokens=3))
    await anext(first)
    others = asyncio.Event()

    async def rehearsal() -> None:
        async with calls.alone():
            order.append("others")
            await others.wait()
            order.append("base")

    rehearsing = asyncio.create_task(rehearsal())
    await asyncio.sleep(0)
    second = asyncio.create_task(call("second"))
    await asyncio.sleep(0)
    assert order == [], (
        "the first call is in the engine still, the second waits behind the rehearsal"
    )
    await first.aclose()
    await eventually(lambda: order == ["others"])
    others.set()
    await asyncio.gather(rehearsing, second)
    assert order[:2] == ["others", "base"] and set(order[2:]) == {"second"}


async def test_after_a_rehearsal_that_failed_nothing_is_sampled_any_more(model: Path) -> None:
    calls = Replicas([FakeEngine(LightTokenizer(model))])
    with suppress(EngineTrainerMismatch):
        async with calls.alone():
            raise EngineTrainerMismatch("it keeps old weights")
    call = asyncio.ensure_future(
        anext(calls.generate("late", [1, 2], SamplingOptions(max_tokens=3)))
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert not call.done()
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


async def test_the_first_call_after_the_gateway_has_opened_is_not_held_back(model: Path) -> None:
    engine, order = Replicas([FakeEngine(LightTokenizer(model))]), list[str]()

    async def compare() -> None:
        async with engine.alone():
            order.append("compared")

    engine.calls_begin()
    comparing = asyncio.create_task(compare())
    await asyncio.sleep(0)
    async for _ in engine.generate("first", [1, 2], SamplingOptions(max_tokens=1)):
        order.append("called")
    await comparing
    assert order == ["called", "compared"]


@pytest.mark.parametrize("opens", [True, False])
async def test_a_call_that_does_not_come_is_not_waited_for_long(
    monkeypatch, model: Path, opens: bool
) -> None:
    monkeypatch.setattr(replicas, "FIRST_CALL_S", 0.01)
    engine = Replicas([FakeEngine(LightTokenizer(model))])
    if opens:
        engine.calls_begin()
    async with asyncio.timeout(5), engine.alone():
        pass
