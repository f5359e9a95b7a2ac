"""How a runtime brings up its engine and its trainer."""

import asyncio
from typing import NoReturn

import pytest

from gpu_runtime import run as run_module
from gpu_runtime.errors import EngineDead, ModelUnsupported
from support.gateway_harness import make_assignment


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


async def test_of_a_model_that_neither_takes_the_reason_is_final(monkeypatch) -> None:
    monkeypatch.setattr(run_module, "TrainerRanks", RefusingTrainer)
    monkeypatch.setattr(run_module, "VllmEngine", NoEngine)
    with pytest.raises(ModelUnsupported, match="does not load"):
        async with run_module.open_engine_and_trainer(make_assignment()):
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
            await asyncio.wait_for(begun.wait(), 5)
            await super().start()

    monkeypatch.setattr(run_module, "TrainerRanks", Trainer)
    monkeypatch.setattr(run_module, "VllmEngine", Engine)
    with pytest.raises(ModelUnsupported, match="does not load"):
        async with run_module.open_engine_and_trainer(make_assignment()):
            pass
