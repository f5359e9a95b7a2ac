"""The state that a session goes on from. Its weights are served before the trainer has loaded it.

They are fetched first, while engine and trainer load, and the engine takes them from their file.
All else is fetched then. The trainer loads the state, of whose weights it takes that file, and is
compared with the engine as always (comparison.py). Nothing is trained before that.

So it is where the state has the weights whole: not where ZeRO 3 has cut them or an engine gets sums
with adapters, nor on a device that engine and trainer share. There the trainer hands them over, and
calls wait for it.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

from gpu_runtime.interfaces import Engine
from gpu_runtime.model_interfaces import Trainer
from gpu_runtime.session import Session
from gpu_runtime.training.states.folder import WEIGHTS
from gpu_runtime.weights.handover_folder import handover_part
from tinkerscript.wire.runtime import Assignment, ResumePoint


def state_folder(volume: Path, step: int) -> Path:
    """Where the state of ``step`` is on this volume."""
    return volume / f"state-{step:08d}"


def state_of(assignment: Assignment) -> ResumePoint | None:
    """What trainer and engine go on from; None: the weights of the base, which an own state of step
    0 has too."""
    own = assignment.resume_from
    return own if own is not None and own.step else assignment.starts_from


def serves_from_state(assignment: Assignment) -> bool:
    """Whether the session goes on from a state that has its weights whole."""
    point, config = state_of(assignment), assignment.config
    if point is None or config.zero_stage == 3 or config.lora_rank:
        return False
    return any(file.path == WEIGHTS for file in point.files)


@asynccontextmanager
async def weights_fetched(session: Session) -> AsyncIterator["asyncio.Task[Path] | None"]:
    """The file of the weights, being fetched until the block ends; None where they are not served
    from it.
    """
    point = state_of(session.assignment)
    if point is None or not serves_from_state(session.assignment):
        yield None
        return
    folder, advance = state_folder(session.volume, point.step), session.status.advance
    task = asyncio.create_task(
        session.store.checkpoint_file(point, WEIGHTS, folder, on_progress=advance)
    )
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class ResumedState:
    """The state of ``point``, on this volume once it was fetched."""

    def __init__(self, session: Session, point: ResumePoint) -> None:
        self._session, self._point = session, point
        self._folder = state_folder(session.volume, point.step)
        self._has_weights = False  # fetched or found there, their hash looked at

    async def fetch(self) -> None:
        """Have all of it. Raises CheckpointDeleted, StoreUnavailable, DiskFull."""
        known, advance = WEIGHTS if self._has_weights else None, self._session.status.advance
        await self._session.store.checkpoint_fetch(
            self._point, self._folder, verified=known, on_progress=advance
        )

    async def serve(self, weights: Awaitable[Path] | None, engine: Engine, handover: Path) -> None:
        """Let the engine have the ``weights`` that were fetched first.

        Raises EngineDead, WeightsRefused, and what ``fetch`` does.
        """
        from gpu_runtime.weights.shared_memory import state_list  # imports torch

        assert weights is not None, "serves_from_state"
        file, folder = await weights, handover / "state"
        self._has_weights = True
        for node in range(self._session.assignment.config.nodes):
            await asyncio.to_thread(state_list, file, handover_part(folder, node))
        await engine.load_weights(folder, self._point.step)
        shutil.rmtree(folder)

    async def load(self, trainer: Trainer) -> None:
        """Let the trainer become it. Raises TrainerFailed, and what ``fetch`` does."""
        await self.fetch()
        await trainer.load_state(self._folder)
