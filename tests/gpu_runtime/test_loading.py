"""How a runtime brings up its engine and its trainer."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import NoReturn

import pytest

from gpu_runtime.engine.tensor_parallel import EngineDevices
from gpu_runtime.errors import EngineDead, EngineTrainerMismatch, ModelUnsupported
from gpu_runtime.loading import engine_and_trainer as loading_module
from gpu_runtime.loading.engine_and_trainer import engine_loaded
from gpu_runtime.placement import Placement
from support.gateway_harness import make_assignment, session_of
from tinkerscript.wire.runtime import Assignment


class RefusingTrainer:
    """A trainer that does not take its model."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self.closed = False

    async def ready(self) -> None:
        raise ModelUnsupported("transformers does not load this model")

    async def close(self) -> None:
        self.closed = True


class NoEngine:
    """An engine whose process ended over the same model, which says nothing of the reason."""

    @classmethod
    async def start(cls, *arguments: object, **options: object) -> NoReturn:
        raise EngineDead("the engine did not start")


def opened_session(assignment: Assignment) -> AbstractAsyncContextManager:
    return loading_module.open_engine_and_trainer(session_of(assignment))


def opened_tinker(assignment: Assignment) -> AbstractAsyncContextManager:
    return loading_module.open_sampler_and_trainer(session_of(assignment))


async def test_of_a_model_that_neither_takes_the_reason_is_final(monkeypatch) -> None:
    monkeypatch.setattr(loading_module, "TrainerRanks", RefusingTrainer)
    monkeypatch.setattr(loading_module, "VllmEngine", NoEngine)
    with pytest.raises(ModelUnsupported, match="does not load"):
        async with opened_session(make_assignment()):
            pass


async def test_engine_and_trainer_load_side_by_side(monkeypatch) -> None:
    begun = asyncio.Event()

    class Trainer(RefusingTrainer):
        async def ready(self) -> None:
            begun.set()
            await super().ready()

    class Engine(NoEngine):
        @classmethod
        async def start(cls, *arguments: object, **options: object) -> NoReturn:
            await asyncio.wait_for(begun.wait(), 25)
            await super().start()

    monkeypatch.setattr(loading_module, "TrainerRanks", Trainer)
    monkeypatch.setattr(loading_module, "VllmEngine", Engine)
    with pytest.raises(ModelUnsupported, match="does not load"):
        async with opened_session(make_assignment()):
            pass


class LateEngine:
    """An engine that would take long to load."""

    closed = 0

    @classmethod
    async def start(cls, *arguments: object, **options: object) -> NoReturn:
        try:
            await asyncio.sleep(3600)
        finally:
            cls.closed += 1
        raise AssertionError("it is not waited for")


@pytest.mark.parametrize(
    ("module", "opened", "trainer", "engine"),
    [
        (loading_module, opened_session, "TrainerRanks", "VllmEngine"),
        (loading_module, opened_tinker, "ModelTrainerProcess", "VllmEngine"),
    ],
    ids=["session", "Tinker session"],
)
async def test_a_trainer_that_refuses_its_model_is_not_heard_after_the_engine_alone(
    monkeypatch, module: ModuleType, opened: Callable, trainer: str, engine: str
) -> None:
    monkeypatch.setattr(module, trainer, RefusingTrainer)
    monkeypatch.setattr(module, engine, LateEngine)
    before = LateEngine.closed
    async with asyncio.timeout(25):
        with pytest.raises(ModelUnsupported, match="does not load"):
            async with opened(make_assignment()):
                pass
    assert LateEngine.closed == before + 1


class Loaded:
    """An engine, or a trainer, that has loaded."""

    def __init__(self, points: list[str], name: str) -> None:
        self._points, self._name = points, name

    async def start(self) -> "Loaded":
        await self.ready()
        return self

    async def ready(self) -> None:
        self._points.append(f"{self._name} begins")
        await asyncio.sleep(0)
        self._points.append(f"{self._name} is ready")

    async def close(self) -> None:
        self._points.append(f"{self._name} closed")


@pytest.mark.parametrize("shared", [False, True])
async def test_on_a_device_that_they_share_the_trainer_loads_after_the_engine(shared: bool) -> None:
    points: list[str] = []
    engine, trainer = Loaded(points, "engine"), Loaded(points, "trainer")
    with pytest.raises(KeyError):
        async with engine_loaded(engine.start, trainer.ready, shared=shared) as (found, loading):
            await loading
            assert found is engine and points[-1] == "trainer is ready"
            raise KeyError("the block's own")
    assert (points.index("engine is ready") < points.index("trainer begins")) == shared
    assert points[-1] == "engine closed"


async def test_an_engine_that_loaded_is_closed_where_the_trainer_does_not_load() -> None:
    points: list[str] = []
    engine, trainer = Loaded(points, "engine"), RefusingTrainer()
    with pytest.raises(ModelUnsupported):
        async with engine_loaded(engine.start, trainer.ready, shared=True) as (_, loading):
            await loading
    assert points[-1] == "engine closed"


class TakingTrainer(RefusingTrainer):
    """A trainer that takes its model, and an engine that does."""

    async def ready(self) -> None:
        return None

    @classmethod
    async def start(cls, *arguments: object, **options: object) -> "TakingTrainer":
        return cls()


async def differs(*arguments: object) -> NoReturn:
    raise EngineTrainerMismatch("they differ")


async def test_a_tinker_session_is_not_ready_before_its_rehearsal_has_passed(monkeypatch) -> None:
    parts = (
        ("ModelTrainerProcess", TakingTrainer),
        ("VllmEngine", TakingTrainer),
        ("rehearse_models", differs),
    )
    for name, value in parts:
        monkeypatch.setattr(loading_module, name, value)
    with pytest.raises(EngineTrainerMismatch, match="they differ"):
        async with opened_tinker(make_assignment()):
            raise AssertionError("opened without a rehearsal")


async def test_the_engine_is_there_while_the_trainer_loads_and_what_they_differ_in_is_raised_later(
    monkeypatch,
) -> None:
    loads = asyncio.Event()

    class Trainer(TakingTrainer):
        async def ready(self) -> None:
            await loads.wait()

    for name, value in (
        ("TrainerRanks", Trainer),
        ("VllmEngine", TakingTrainer),
        ("rehearse", differs),
    ):
        monkeypatch.setattr(loading_module, name, value)
    async with opened_session(make_assignment()) as (_, trainer, comparison):
        assert not comparison.is_over
        loads.set()
        with pytest.raises(EngineTrainerMismatch, match="they differ"):
            await comparison.passed()
        assert comparison.is_over and not trainer.closed
    assert trainer.closed


async def test_a_session_that_ends_while_its_trainer_loads_waits_for_nothing(monkeypatch) -> None:
    class Trainer(TakingTrainer):
        async def ready(self) -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr(loading_module, "TrainerRanks", Trainer)
    monkeypatch.setattr(loading_module, "VllmEngine", TakingTrainer)
    async with asyncio.timeout(25):
        async with opened_session(make_assignment()) as (engine, trainer, _):
            pass
    assert engine.parts[0].closed and trainer.closed


async def test_on_a_device_that_they_share_they_are_compared_before_the_engine_serves(
    monkeypatch,
) -> None:
    plan = Placement("cuda", shared=True, engine_gpus=("0",), trainer_gpus=("0",))
    replaced = (
        ("TrainerRanks", TakingTrainer), ("VllmEngine", TakingTrainer), ("rehearse", differs),
        ("placement_choose", lambda *_: plan), ("engine_devices_plan", lambda *_: EngineDevices()),
    )  # fmt: skip
    for name, value in replaced:
        monkeypatch.setattr(loading_module, name, value)
    with pytest.raises(EngineTrainerMismatch, match="they differ"):
        async with opened_session(make_assignment()):
            raise AssertionError("an engine serves calls that must sleep while it is compared")
