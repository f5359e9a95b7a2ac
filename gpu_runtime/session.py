"""One session in this process: what all of its parts share, and what run.py needs of the parts of
each kind.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from tinkerscript.wire.runtime import Assignment

from .config import RuntimeConfig
from .control_plane.agent import Agent
from .control_plane.watchdog import Clock
from .errors import RuntimeFault
from .health.status import Status
from .interfaces import EngineProcess
from .journal.journal import Journal
from .model_interfaces import TrainerProcess
from .object_store.uploads import ObjectStore


@dataclass(frozen=True)
class Session:
    """``agent`` and ``store`` act under its lease. ``faults`` takes what a part found that ends the
    runtime.
    """

    agent: Agent
    assignment: Assignment
    config: RuntimeConfig
    store: ObjectStore
    faults: asyncio.Queue[RuntimeFault] = field(default_factory=asyncio.Queue)

    @property
    def status(self) -> Status:
        """What the heartbeats report."""
        return self.agent.status

    @property
    def volume(self) -> Path:
        """The folder of this session on this machine."""
        return self.config.runtime_dir

    async def journal_open(self) -> Journal:
        """This volume's journal, or the last copy of it, or a new one."""
        path, files = self.volume / "journal.sqlite3", self.assignment.journal_files
        if files and not path.exists():
            await self.store.journal_fetch(files[0], path, files[1:])
        journal = Journal(path)
        journal.hold()
        return journal


@dataclass(frozen=True, kw_only=True)
class Parts(ABC):
    """The parts of a session, built and complete. run.py calls the methods in the order in which
    they stand here.
    """

    session: Session
    app: Starlette
    engine: EngineProcess
    trainer: TrainerProcess | None = None
    # beside the session's progress: ends the runtime where it stands still
    clock: Clock | None = None
    waiting: str  # the phase of a session that is ready, in words
    ending: str = "saving"  # that of ``close``

    async def restore(self) -> int:
        """Go on from what is stored, before the first call. Returns the policy version that is
        served.
        """
        return 0

    def guarded(self) -> AbstractAsyncContextManager[None]:
        """Around all that happens while calls are served."""
        return nullcontext()

    @abstractmethod
    async def report(self) -> None:
        """Let the next heartbeat have how the session stands, once a second."""

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """What runs beside ``work`` without end. The first to raise ends the runtime."""
        return []

    @property
    def judges_trainer(self) -> bool:
        """Whether ``work`` itself finds out what became of a trainer that ends now."""
        return False

    async def work(self) -> None:
        """Until the control plane asks for the end."""
        await self.session.agent.stop_requested.wait()

    async def close(self) -> None:  # noqa: B027 - a kind may have nothing to store
        """Store what outlives the runtime. No call is served any more; engine and trainer are still
        there.
        """
