"""How a runtime starts the processes of its engine and its trainer: forked on a CPU, spawned on a GPU.

What they import takes seconds of computing in each. On a CPU one process, Python's fork server, imports it once while
the main process imports its own part, and the others are forked from it. CUDA does not survive a fork.
"""

import multiprocessing
import os
import threading
from collections.abc import Sequence
from multiprocessing import forkserver, popen_forkserver, popen_spawn_posix
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess

from gpu_runtime.health.notice import kept_from_children

from .starting import starts_protect

_begun: list[str] = []  # what the fork server of this process imports


def fork_server_begin(modules: Sequence[str]) -> None:
    """Start the fork server with this process's environment; returns at once, and again does nothing.

    A module that cannot be imported is left out: the process that needs it raises.
    """
    if _begun:
        return
    _begun.extend(modules)
    starts_protect()
    multiprocessing.set_forkserver_preload(list(modules))
    with kept_from_children():
        forkserver.ensure_running()


def forks(device: str) -> bool:
    """Whether the processes of ``device`` ("cpu" or "cuda") are forked."""
    return device == "cpu" and bool(_begun)


def process_context(device: str) -> ForkServerContext | SpawnContext:
    """What makes the processes of ``device``. To start one waits for the imports: call it in a thread."""
    starts_protect()
    return _ForkedContext() if forks(device) else _SpawnedContext()


class _AskedInTurn:
    """How a process ended, for several threads: of two at once Python would tell one 255, or that it has not ended."""

    def __init__(self, process_obj: BaseProcess) -> None:
        self._turn = threading.Lock()
        super().__init__(process_obj)  # type: ignore[call-arg]

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """The exit code, once it has ended."""
        with self._turn:
            return super().poll(flag)  # type: ignore[misc]


class _ForkedEnd(_AskedInTurn, popen_forkserver.Popen): ...


class _SpawnedEnd(_AskedInTurn, popen_spawn_posix.Popen): ...


class _Forked(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> _ForkedEnd:
        return _ForkedEnd(process_obj)


class _Spawned(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> _SpawnedEnd:
        return _SpawnedEnd(process_obj)


class _ForkedContext(ForkServerContext):
    Process = _Forked


class _SpawnedContext(SpawnContext):
    Process = _Spawned
