"""Short operations of several models that wait together are one pass; each has its own result, its
own end, and its place in the order of its model.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpu_runtime.errors import InputUnusable
from gpu_runtime.gateway.tinker import messages, work
from support.tinker_harness import MODEL, Open, Wire, opening, step, training

MODELS = [MODEL, *(f"tnk_{client}:train:0" for client in ("cd", "ef", "gh"))]
FIRST = "tnk_yz:train:0"


@asynccontextmanager
async def held(wire: Wire) -> AsyncIterator[None]:
    """What is sent in the block waits until its end, as behind a long operation."""
    freed = asyncio.Event()

    async def reach(point: str) -> None:
        await freed.wait()

    plain, wire.trainer.reach = wire.trainer.reach, reach
    first = asyncio.create_task(wire.model(FIRST))
    while wire.trainer.calls[-1] != f"create_model {FIRST}":
        await asyncio.sleep(0)
    yield
    wire.trainer.reach = plain
    freed.set()
    await first


async def models_make(wire: Wire) -> None:
    for model_id in MODELS:
        await wire.model(model_id)


async def sent(wire: Wire, bodies: list[bytes]) -> list[str]:
    """Their promises; all of them wait until the last was sent."""
    async with held(wire):
        return [await wire.promise("forward_backward", body) for body in bodies]


async def sums(wire: Wire, promises: list[str]) -> list[float]:
    answers = [await wire.result(promise) for promise in promises]
    outputs = [messages.ForwardBackwardOutput.FromString(answer.content) for answer in answers]
    return [output.metrics["loss:sum"] for output in outputs]


def bodies() -> list[bytes]:
    return [
        training(1, list(range(3, 6 + number)), model_id=model_id)
        for number, model_id in enumerate(MODELS)
    ]


def passes(wire: Wire) -> list[str]:
    return [call for call in wire.trainer.calls if call.startswith(("joined", "forward"))]


async def test_each_model_has_its_own_result_and_is_trained_as_alone(tmp_path: Path) -> None:
    trained = []
    for joins in (True, False):
        (folder := tmp_path / str(joins)).mkdir()
        async with opening(folder)(joins=joins) as wire:
            await models_make(wire)
            assert await sums(wire, await sent(wire, bodies())) == [6.0, 10.0, 15.0, 21.0]
            alone = [f"forward_backward {model_id}" for model_id in MODELS]
            assert passes(wire) == ["joined 4", *alone], "what is refused is not tried again"
            for model_id in MODELS:
                await wire.do("optim_step", step(2, model_id=model_id))
            trained.append([wire.trainer.models[each]["weights"] for each in MODELS])
    assert trained[0] == trained[1]


async def test_what_is_long_or_computes_no_gradient_is_alone(wire_open: Open) -> None:
    async with wire_open() as wire:
        await models_make(wire)
        short, long, forward, _ = MODELS
        promises = await sent(
            wire,
            [
                training(1, model_id=short),
                training(1, list(range(3, 500)), model_id=long),
                training(1, model_id=forward, forward_only=True),
            ],
        )
        for promise in promises:
            assert (await wire.result(promise)).status_code == 200
        assert passes(wire) == [
            f"forward_backward {short}", f"forward_backward {long}", f"forward {forward}",
        ]  # fmt: skip


async def test_a_mistake_is_told_to_the_one_who_made_it(wire_open: Open) -> None:
    async with wire_open() as wire:
        await models_make(wire)
        wrong = training(1, model_id=MODELS[2], loss_fn="nonsense")
        promises = await sent(wire, [*bodies()[:2], wrong, bodies()[3]])
        told = (await wire.result(promises.pop(2))).json()
        assert told["category"] == "user" and "nonsense" in told["error"]
        assert await sums(wire, promises) == [6.0, 10.0, 21.0]
        assert passes(wire).count(f"forward_backward {MODEL}") == 1


async def test_an_input_that_breaks_the_pass_breaks_its_own_operation_alone(
    wire_open: Open,
) -> None:
    async def reach(point: str) -> None:
        if point in ("joined 4", f"forward_backward {MODELS[1]}"):
            raise InputUnusable("an index is out of bounds")

    async with wire_open(reach=reach) as wire:
        await models_make(wire)
        promises = await sent(wire, bodies())
        assert "out of bounds" in (await wire.result(promises.pop(1))).json()["error"]
        assert await sums(wire, promises) == [6.0, 15.0, 21.0]


async def test_all_have_their_results_before_a_state_is_written(
    wire_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "SAVE_AFTER_OPERATIONS", 1)
    monkeypatch.setattr(work, "SAVING_SHARE", math.inf)
    saving = asyncio.Event()

    async def reach(point: str) -> None:
        if "joined 4" in wire.trainer.calls and point.startswith("save_state"):
            saving.set()
            await asyncio.Event().wait()

    async with wire_open(reach=reach) as wire:
        await models_make(wire)
        promises = await sent(wire, bodies())
        await saving.wait()
        assert await sums(wire, promises) == [6.0, 10.0, 15.0, 21.0]


async def test_a_pass_that_a_kill_ended_is_done_by_the_next_runtime(wire_open: Open) -> None:
    reached = asyncio.Event()

    async def reach(point: str) -> None:
        if point == "joined 4":
            reached.set()
            await asyncio.Event().wait()

    async with wire_open(reach=reach) as wire:
        await models_make(wire)
        promises = await sent(wire, bodies())
        await reached.wait()
    async with wire_open() as wire:
        assert await sums(wire, promises) == [6.0, 10.0, 15.0, 21.0]
        for model_id in MODELS:
            await wire.do("optim_step", step(2, model_id=model_id))
    async with wire_open() as wire:  # and what was joined is done again
        for model_id in MODELS:
            await wire.do("optim_step", step(3, model_id=model_id))
        assert wire.ledger.steps_done == 8
