"""The real trainer refuses what would break the weights, to the bit, and says so when a rank runs
out of memory.
"""

import asyncio
import dataclasses
import math
import random
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gpu_runtime.errors import OutOfMemory, StepRefused, TrainerKilled
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_steps import gradient, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
PROMPT, ANSWER = 12, 4


def batch(seed: int, *, answer: int = ANSWER) -> list[Sample]:
    """A group of four answers to one prompt."""
    rng = random.Random(seed)
    prompt = [rng.randrange(3, 98) for _ in range(PROMPT)]
    mask, old = (0,) * PROMPT + (1,) * answer, (0.0,) * PROMPT + (-4.5,) * answer
    ids = [tuple(prompt + [rng.randrange(3, 98) for _ in range(answer)]) for _ in range(4)]
    return [Sample(each, mask, old, rng.uniform(-1, 1)) for each in ids]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_make(tmp_path_factory.mktemp("tiny"))


@asynccontextmanager
async def ranks(
    model: Path, *, on_progress: Callable[[], None] = lambda: None, **changes: object
) -> AsyncIterator[TrainerRanks]:
    config = SessionConfig(**{"learning_rate": 1e-3, "micro_batch_tokens": 64, **changes})
    trainer = TrainerRanks(str(model), config, "cpu", on_progress=on_progress)
    try:
        yield trainer
    finally:
        await trainer.close()


async def step(
    trainer: TrainerRanks, number: int, samples: list[Sample] | None = None
) -> dict[str, float]:
    metrics = await gradient(trainer, samples or batch(number))
    return metrics | await optim_step(trainer, number)


async def weights(trainer: TrainerRanks, folder: Path) -> dict[str, Tensor]:
    await trainer.publish(folder)
    return published_weights(folder)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("stage", [1, 2, 3])
async def test_refused_steps_leave_no_trace_in_any_bit(
    model: Path, tmp_path: Path, stage: int
) -> None:
    """By a gradient that is NaN, by one that explodes, and by one that is dropped: in between, the
    run is the same.
    """
    async with ranks(model, zero_stage=stage, grad_norm_limit=50.0) as trainer:
        await step(trainer, 1)
        await step(trainer, 2)
        undisturbed = await weights(trainer, tmp_path / "undisturbed")
        await trainer.restart()
        await step(trainer, 1)
        before = await weights(trainer, tmp_path / "before")
        with pytest.raises(StepRefused, match="not finite"):
            await step(
                trainer, 2, [dataclasses.replace(sample, advantage=math.nan) for sample in batch(7)]
            )
        with pytest.raises(StepRefused, match=r"explodes: its norm .* above grad_norm_limit"):
            await step(
                trainer, 2, [dataclasses.replace(sample, advantage=1e6) for sample in batch(8)]
            )
        await gradient(trainer, batch(9))
        await trainer.drop_gradient()
        assert equal(before, await weights(trainer, tmp_path / "after"))
        metrics = await step(trainer, 2)
        assert 0 < metrics["grad_norm"] < 50
        assert equal(undisturbed, await weights(trainer, tmp_path / "then"))


async def test_a_gradient_below_the_limit_is_clipped_and_applied(
    model: Path, tmp_path: Path
) -> None:
    async with ranks(model, grad_clip=0.01) as trainer:
        metrics = await step(trainer, 1)
        assert metrics["grad_norm"] > 0.01, "the norm is reported as it was before the clip"
        before = await weights(trainer, tmp_path / "1")
        await step(trainer, 2)
        assert not equal(before, await weights(trainer, tmp_path / "2"))


@pytest.mark.parametrize("count", [1, 2])
async def test_an_allocation_that_fails_is_out_of_memory_and_the_trainer_starts_again(
    model: Path, tmp_path: Path, count: int
) -> None:
    async with ranks(model, trainer_ranks=count) as trainer:
        await step(trainer, 1)
        expected = await weights(trainer, tmp_path / "1")
        limit_memory(trainer.processes[-1].pid, more_bytes=64 << 20)
        with pytest.raises(
            OutOfMemory, match=f"rank {count - 1} ran out of memory in forward_backward"
        ):
            await gradient(trainer, batch(2, answer=60_000))
        await trainer.restart()
        await step(trainer, 1)
        assert equal(expected, await weights(trainer, tmp_path / "again"))


def limit_memory(pid: int, *, more_bytes: int) -> None:
    """Let a process have only so much more address space than it has now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more_bytes
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


async def test_a_rank_that_is_killed_in_a_step_is_named_and_replaced(
    model: Path, tmp_path: Path
) -> None:
    advanced, loop = asyncio.Event(), asyncio.get_running_loop()
    tell = lambda: loop.call_soon_threadsafe(advanced.set)  # noqa: E731
    async with ranks(model, trainer_ranks=2, on_progress=tell) as trainer:
        await step(trainer, 1)
        expected = await weights(trainer, tmp_path / "1")
        advanced.clear()
        work = asyncio.create_task(
            gradient(trainer, [it for seed in range(400) for it in batch(seed)])
        )
        await asyncio.wait_for(advanced.wait(), 60)
        trainer.processes[1].kill()
        with pytest.raises(TrainerKilled, match="rank 1 was killed during forward_backward"):
            await work
        assert trainer.dead
        await trainer.restart()
        assert not trainer.dead
        await step(trainer, 1)
        assert equal(expected, await weights(trainer, tmp_path / "again"))


async def test_a_batch_reports_that_it_advances_row_by_row(model: Path) -> None:
    rows = list[int]()
    async with ranks(model, on_progress=lambda: rows.append(1)) as trainer:
        await gradient(trainer, [it for seed in range(5) for it in batch(seed)])
        assert len(rows) >= 3
