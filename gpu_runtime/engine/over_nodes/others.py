"""The runtime's side of an engine over several nodes: it starts the parts on other nodes and
notices their end.

Where one is lost, or cannot start, the engine's core is killed: it waits for that node, maybe
without end. What then fails is named by the node.
"""

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any, Protocol

from gpu_runtime.errors import EngineDead, NodesDiffer, PlacementImpossible, RuntimeFault
from gpu_runtime.processes.exit_report import ExitReport

from .part import EnginePart

CORE = "EngineCore"  # vLLM's name of the process
POLL_S = 0.5
END_S = 10.0
# an engine that has failed over a lost node may say so first; of a killed process the line soon
# ends
NOTICE_S = 5.0


class Remote(Protocol):
    """As much as is needed here of a process on another node."""

    connection: Any
    sentinel: Any
    words: ExitReport

    @property
    def exitcode(self) -> int | None:
        """Negative for a signal."""
        ...

    def kill(self) -> None:
        """End it."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        ...


class OtherNodes:
    """The parts of one engine but ``own``, the first; ``begin`` starts the process of one."""

    def __init__(self, parts: Sequence[EnginePart], begin: Callable[[EnginePart], Remote]) -> None:
        self.own, *self._parts = parts
        self._begin = begin
        self._remotes: list[Remote] = []
        self._lost: RuntimeFault | None = None
        self._found, self._closed = threading.Event(), threading.Event()

    def start(self) -> None:
        """Start all; returns at once."""
        self._remotes = [self._begin(part) for part in self._parts]
        threading.Thread(target=self._watch, name="engine-nodes", daemon=True).start()

    @property
    def lost(self) -> RuntimeFault | None:
        """What became of the first that has ended; None while all live."""
        return self._lost

    async def cause(self, error: RuntimeFault) -> RuntimeFault:
        """Why an engine failed that says ``error``: a node that is lost, if one is."""
        await asyncio.to_thread(self._found.wait, NOTICE_S)
        return self._lost or error

    def close(self) -> None:
        """End all."""
        self._closed.set()
        for remote in self._remotes:
            remote.kill()
        for remote in self._remotes:
            remote.join(END_S)

    def _watch(self) -> None:
        while not self._closed.is_set():
            ready = wait(
                [it for each in self._remotes for it in (each.connection, each.sentinel)],
                timeout=POLL_S,
            )
            if ready and not self._closed.is_set():
                index = next(
                    i
                    for i, it in enumerate(self._remotes)
                    if it.connection in ready or it.sentinel in ready
                )
                self._lost = self._end_of(index)
                self._found.set()
                break
        while not self._closed.wait(POLL_S):
            _cores_kill()  # again, because it may be about to start

    def _end_of(self, index: int) -> RuntimeFault:
        remote, node = self._remotes[index], self._parts[index].node
        try:
            kind, value = remote.connection.recv()
        except (EOFError, OSError):
            remote.join(END_S)
            return EngineDead(
                f"node {node} is lost: the engine's part on it "
                f"{remote.words.end_of(remote.exitcode)}"
            )
        return {"differ": NodesDiffer, "refused": PlacementImpossible}.get(kind, EngineDead)(
            str(value)
        )


def _cores_kill() -> None:
    for process in multiprocessing.active_children():
        if process.name == CORE:
            process.kill()
