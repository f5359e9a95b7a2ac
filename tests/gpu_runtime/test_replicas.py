"""Several engines are one to the gateway and the learner: sticky by episode, one version, dead or
stuck with any.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_runtime.engine.replicas import MAX_EPISODES, Replicas, engines_start
from gpu_runtime.errors import EngineDead, WeightsRefused
from gpu_runtime.health.status import DEADLINES_S, Phase
from gpu_runtime.interfaces import SamplingOptions
from support.fakes import WEIGHTS, FakeEngine
from support.gateway_harness import running_gateway
from support.light_tokenizer import LightTokenizer
from support.waiting import eventually


@pytest.fixture
def engines(model: Path) -> list[FakeEngine]:
    return [FakeEngine(LightTokenizer(model)) for _ in range(3)]


async def call(replicas: Replicas, episode: str = "", name: str = "call") -> set[int]:
    """The versions of one call."""
    options = SamplingOptions(max_tokens=8, episode_id=episode)
    return {delta.version async for delta in replicas.generate(name, (5, 6, 7), options)}


def counts(engines: list[FakeEngine]) -> list[int]:
    return [len(engine.requests) for engine in engines]


def held(engine: FakeEngine, point: str) -> asyncio.Event:
    """The engine stops where it reaches ``point`` until the event is set."""
    goes_on = asyncio.Event()

    async def reach(reached: str) -> None:
        if reached == point:
            await goes_on.wait()

    engine.reach = reach
    return goes_on


async def test_an_episode_stays_with_the_least_loaded_engine_of_its_first_call(
    engines: list[FakeEngine],
) -> None:
    replicas = Replicas(engines)
    for engine in engines:
        engine.hang = True
    calls = [asyncio.create_task(call(replicas, episode)) for episode in "abc"]
    await eventually(lambda: counts(engines) == [1, 1, 1])
    engines[1].released.set()
    await calls[1]
    engines[1].hang = False
    await call(replicas, "d")
    assert counts(engines) == [1, 2, 1], "the one that has no call in flight"
    await asyncio.wait_for(call(replicas, "e"), 25)
    assert counts(engines) == [1, 3, 1], "though it has the most episodes"
    for engine in engines:
        engine.hang = False
        engine.released.set()
    await asyncio.gather(*calls)
    for episode in "aabbccd":
        await call(replicas, episode, f"of {episode}")
    assert counts(engines) == [3, 6, 3]
    of = [{request.options.episode_id for request in engine.requests} for engine in engines]
    assert of == [{"a"}, {"b", "d", "e"}, {"c"}]


async def test_episodes_and_calls_of_none_go_round_where_nothing_is_in_flight(
    engines: list[FakeEngine],
) -> None:
    replicas = Replicas(engines)
    for number in range(6):
        await call(replicas, f"episode {number % 3}" if number < 3 else "")
    assert counts(engines) == [2, 2, 2]


async def test_what_is_known_of_episodes_has_a_bound(
    engines: list[FakeEngine], monkeypatch
) -> None:
    assert MAX_EPISODES > 1000
    monkeypatch.setattr("gpu_runtime.engine.replicas.MAX_EPISODES", 2)
    replicas = Replicas(engines)
    for episode in ("a", "b", "a", "c", "a"):
        await call(replicas, episode)
    assert counts(engines) == [3, 1, 1], "the episode that was called last is kept"
    await call(replicas, "b")
    assert counts(engines) == [4, 1, 1], "b was forgotten, and given out anew"


async def test_no_call_begins_under_new_weights_before_every_engine_has_them(
    engines: list[FakeEngine], tmp_path: Path
) -> None:
    (tmp_path / WEIGHTS).write_text("new")
    replicas = Replicas(engines)
    slow = held(engines[2], "load_weights 1")
    handover = asyncio.create_task(replicas.load_weights(tmp_path, 1))
    await eventually(lambda: engines[0].version == engines[1].version == 1)
    late = [asyncio.create_task(call(replicas, f"late {number}")) for number in range(6)]
    assert not (await asyncio.wait(late, timeout=0.2))[0]
    assert counts(engines) == [0, 0, 0] and replicas.version == 0
    slow.set()
    await handover
    assert await asyncio.gather(*late) == [{1}] * 6 and counts(engines) == [2, 2, 2], (
        "shared out as they begin"
    )
    assert replicas.version == 1 and {engine.weights_text for engine in engines} == {"new"}
    replicas.version = 4  # a step that had nothing to learn
    assert [engine.version for engine in engines] == [4, 4, 4]


async def test_weights_that_one_engine_refuses_are_refused_at_once_and_nothing_is_sampled_any_more(
    engines: list[FakeEngine], tmp_path: Path
) -> None:
    (tmp_path / WEIGHTS).write_text("new")
    replicas = Replicas(engines)
    held(engines[0], "load_weights 1")  # its hand-over would last for ever

    async def refuse(point: str) -> None:
        raise WeightsRefused(f"refused: {point}")

    engines[1].reach = refuse
    with pytest.raises(WeightsRefused):
        await replicas.load_weights(tmp_path, 1)
    waiting = asyncio.create_task(call(replicas))
    assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
    waiting.cancel()


async def test_all_sleep_and_wake_and_calls_wait_meanwhile(engines: list[FakeEngine]) -> None:
    points: list[str] = []

    async def reach(point: str) -> None:
        points.append(point)

    for engine in engines:
        engine.reach = reach
    engines[2].shares_device = True
    replicas = Replicas(engines)
    assert replicas.shares_device
    await replicas.sleep()
    waiting = asyncio.create_task(call(replicas))
    assert not (await asyncio.wait({waiting}, timeout=0.2))[0] and points == ["sleep"] * 3
    await replicas.wake()
    assert await waiting == {0} and points == ["sleep"] * 3 + ["wake"] * 3 + ["generate"]


async def test_one_that_is_dead_or_stuck_makes_the_whole_so(
    engines: list[FakeEngine], monkeypatch
) -> None:
    replicas = Replicas(engines)
    assert not replicas.dead and replicas.stuck() is None
    engines[1].hang = True
    await call(replicas, "a")
    stuck = asyncio.create_task(call(replicas, "b"))
    await eventually(lambda: counts(engines) == [1, 1, 0])
    monkeypatch.setitem(DEADLINES_S, Phase.GENERATION, -1.0)
    await call(replicas, "a")
    assert "engine 1 of 3" in (replicas.stuck() or ""), "though another one samples"
    await replicas.sleep()
    assert replicas.stuck() is None, "silence is expected then"
    await replicas.wake()
    engines[1].dead = True
    assert replicas.dead
    engines[1].released.set()
    with pytest.raises(EngineDead):
        await stuck


async def test_a_call_that_is_closed_ends_in_its_engine(engines: list[FakeEngine]) -> None:
    replicas = Replicas(engines)
    engines[0].hang = True
    stream = replicas.generate("closed", (5, 6), SamplingOptions(max_tokens=8))
    await anext(stream)
    await stream.aclose()
    assert engines[0].requests[0].cancelled


def starts(
    engines: list[FakeEngine], order: list[str], failing: int | None = None
) -> list[Callable]:
    def start_of(number: int, engine: FakeEngine) -> Callable:
        async def start() -> FakeEngine:
            order.append(f"{number} begins")
            await asyncio.sleep(0)
            if number == failing:
                raise EngineDead("it did not start")
            order.append(f"{number} is ready")
            return engine

        return start

    return [start_of(number, engine) for number, engine in enumerate(engines)]


async def test_one_engine_or_several_are_one_and_start_one_after_the_other(
    engines: list[FakeEngine],
) -> None:
    order: list[str] = []
    advanced: list[int] = []
    alone = await engines_start(starts(engines[:1], order), on_progress=lambda: advanced.append(1))
    assert alone.parts == (engines[0],)
    order.clear()
    found = await engines_start(starts(engines, order), on_progress=lambda: advanced.append(1))
    assert found.parts == tuple(engines) and len(advanced) == 4
    assert order == [f"{number} {what}" for number in range(3) for what in ("begins", "is ready")]
    assert found.context_length == engines[0].context_length

    async def fail() -> None:
        raise TypeError

    engines[0].close = fail  # type: ignore[method-assign]
    with pytest.raises(TypeError):
        await found.close()
    assert engines[1].closed and engines[2].closed, "the others end all the same"


async def test_engines_that_started_end_where_a_later_one_does_not_start(
    engines: list[FakeEngine],
) -> None:
    with pytest.raises(EngineDead, match="did not start"):
        await engines_start(starts(engines, [], failing=2), on_progress=lambda: None)
    assert [engine.closed for engine in engines] == [True, True, False]


async def test_the_calls_of_an_episode_reach_one_engine_through_the_gateway(
    tmp_path: Path, model: Path
) -> None:
    tokenizer = LightTokenizer(model)
    engines = [FakeEngine(tokenizer) for _ in range(2)]
    async with running_gateway(tmp_path, real=(Replicas(engines), tokenizer)) as gateway:
        begun = [await gateway.begin(task=f"task {number}") for number in range(2)]
        for each in (*begun, *begun, begun[0]):
            answer = await gateway.raw_chat(each["api_key"])
            assert answer.status_code == 200, answer.text
    assert counts(engines) == [3, 2]
    assert [{request.options.episode_id for request in engine.requests} for engine in engines] == [
        {begun[0]["episode_id"]}, {begun[1]["episode_id"]},
    ]  # fmt: skip
