"""Calls that are in flight while a step runs and its weights are handed over."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.episodes.open_episodes import OpenEpisode
from gpu_runtime.errors import RuntimeFault
from gpu_runtime.generation.calls import Calls
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.recorder import ForgottenCalls
from gpu_runtime.generation.requests import ChatRequest, Identity
from gpu_runtime.health.status import DEADLINES_S, Phase
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.journal.journal import Journal
from gpu_runtime.rendering.renderer import Renderer
from support.fakes import FakeEngine
from support.light_tokenizer import LightTokenizer
from support.runtime_harness import plane_assign
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig


async def test_a_long_call_holds_up_no_step_and_each_of_its_tokens_keeps_its_version(
    plane, runtime, model: Path
) -> None:
    plane_assign(plane, model, max_staleness=1)
    async with runtime(plane) as it:
        it.engine.keeps_calls = it.engine.hang = True
        long = asyncio.create_task(it.play("a", 0.0))
        await eventually(lambda: it.engine.requests and it.engine.requests[0].token_ids)
        it.engine.hang = False
        await it.play_groups("b", "c")
        await it.stepped(1)
        assert not long.done() and it.engine.version == 1, (
            "the step and its hand-over came while it was in flight"
        )
        it.engine.released.set()
        await long
        await it.play("a", 1.0)
        await it.play_groups("d")
        await it.stepped(2)
        await it.end()
    journal = Journal(it.volume / "journal.sqlite3")
    record = next(each for each in journal.episodes.page(limit=20) if each.id == long.result())
    (call,) = journal.calls.of_episode(record.id)
    journal.close()
    (answer,) = call.completions
    sampled = it.engine.requests[0]
    assert (list(answer.token_ids_T), len(answer.versions_T)) == (
        sampled.token_ids,
        len(sampled.token_ids),
    )
    assert answer.versions_T[:2] == (0, 0) and set(answer.versions_T[2:]) == {1}
    assert (record.version_first, record.version_last, record.trained_step) == (0, 1, 2)


async def test_a_call_is_kept_for_as_long_as_a_step_lasts(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour passes on the loop's clock while the engine sleeps on a device that the trainer
    uses.
    """
    engine = FakeEngine(LightTokenizer(model))
    engine.hang = True
    faults: list[RuntimeFault] = []
    renderer = Renderer(engine.tokenizer)
    calls = Calls(
        ForgottenCalls(SimpleNamespace()), Replicas([engine]), renderer, SessionConfig(max_context_length=512),
        on_fault=faults.append,
    )  # fmt: skip
    episode = OpenEpisode(
        id="e", eval=True, group_key="", begun_at=0.0, deadline_at=1e12, last_seen=0.0
    )
    asked = ChatRequest.model_validate(
        {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    )
    live = calls.open(episode, PreparedChat(asked, renderer, Identity("")))
    await eventually(lambda: engine.requests and engine.requests[0].token_ids)
    loop = asyncio.get_running_loop()
    began = loop.time
    with monkeypatch.context() as later:
        later.setattr(loop, "time", lambda: began() + 3600)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not live.task.done()
    engine.released.set()
    await asyncio.wait_for(live.task, 25)
    assert faults == [] and live.record is not None and live.record.status == "completed"


async def test_an_engine_that_sleeps_by_order_is_not_stuck(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(LightTokenizer(model))
    engine.hang = True
    watched = Replicas([engine])
    stream = watched.generate("kept", engine.encode("hello"), SamplingOptions(max_tokens=8))
    await anext(stream)
    monkeypatch.setitem(DEADLINES_S, Phase.GENERATION, -1.0)
    assert watched.stuck()
    await watched.sleep()
    assert watched.stuck() is None
    await watched.wake()
    assert watched.stuck(), "its clock goes on"
    await stream.aclose()
