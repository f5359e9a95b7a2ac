"""The comparison of engine and trainer, which runs beside the first calls.

A fresh session samples from the base weights, which need the engine alone. So the gateway opens as
soon as the engine has loaded. The trainer loads meanwhile, and the two are compared (rehearsal.py):
a difference fails the session. Nothing is trained, saved, restored or exported before it has passed
(learner.py).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.errors import OutOfMemory
from gpu_runtime.health.status import Phase, Status
from gpu_runtime.model_interfaces import Trainer


class Comparison:
    """The trainer's loading and the rehearsal, as one task. Without ``begin`` it has passed:
    nothing is waited for.

    ``resumes``: between the two the trainer loads the state whose weights the engine has
    (resumed_state.py).
    """

    def __init__(self, *, resumes: bool = False) -> None:
        self.resumes = resumes
        self._resumed_by: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._resumable = asyncio.Event()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside the calls."""
        self._task = asyncio.create_task(work)

    def resume_by(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let the trainer load the state by ``work``: the engine has its weights."""
        self._resumed_by = work
        self._resumable.set()

    async def resumed(self) -> None:
        """Once the trainer has loaded the state, if it ``resumes``."""
        if self.resumes:
            await self._resumable.wait()
            assert self._resumed_by is not None, "set before the event"
            await self._resumed_by()

    @property
    def is_over(self) -> bool:
        """Whether it has passed or failed."""
        return self._task is None or self._task.done()

    async def passed(self) -> None:
        """Wait until it has passed. Raises what it found: EngineTrainerMismatch, ModelUnsupported,
        TrainerFailed.
        """
        if self._task is not None:
            await asyncio.shield(self._task)

    async def end(self) -> None:
        """Stop it, if it still runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


@dataclass
class Loaded:
    """An engine that has loaded and its trainer, which loads on. Nothing is done with it until
    ``comparison`` passed.

    ``handover`` is where weights pass from trainer to engine: memory, not disk, where the machine
    has it. ``state_weights`` is the file of the weights of a state, where the comparison resumes
    from it.
    """

    engine: Replicas
    trainer: Trainer
    comparison: Comparison
    handover: Path
    state_weights: Awaitable[Path] | None = None
    # a rank that ends while one of the two is set is the learner's to judge, and no other part's
    trains: bool = False
    writes: bool = False

    @asynccontextmanager
    async def training(self, status: Status) -> AsyncIterator[None]:
        """Around the trainer's work, once it has loaded and passed. Raises what it found then: see
        Comparison.
        """
        if not self.comparison.is_over:
            status.begin(Phase.LOADING, "loading the trainer")
        await self.comparison.passed()
        self.trains = True
        yield
        # not after an error: that is on its way to end the runtime, with the right name
        self.trains = False

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Around a checkpoint that the trainer writes. Ranks without the memory for it were ended:
        after OutOfMemory ``writes`` stays set until they are started again.
        """
        self.writes, is_short = True, False
        try:
            yield
        except OutOfMemory:
            is_short = True
            raise
        finally:
            self.writes = is_short

    async def hand_over(self, version: int, status: Status) -> None:
        """Let the engine serve the trainer's weights as ``version``. Raises TrainerFailed,
        EngineDead.
        """
        await self.trainer.publish(self.handover)
        status.advance()
        await self.engine.load_weights(self.handover, version)
