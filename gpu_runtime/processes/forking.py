"""How a runtime starts the processes of its engine and its trainer: forked on a CPU, spawned on a
GPU.

What they import takes seconds of computing in each. On a CPU one process, Python's fork server,
imports it once while the main process imports its own part, and the others are forked from it. CUDA
does not survive a fork.
"""

import multiprocessing
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext

from gpu_runtime.health.notice import kept_from_children

from .several_threads import multiprocessing_protect

_begun: list[str] = []  # what the fork server of this process imports


def fork_server_begin(modules: Sequence[str]) -> None:
    """Start the fork server with this process's environment; returns at once, and again does
    nothing.

    A module that cannot be imported is left out: the process that needs it raises.
    """
    if _begun:
        return
    _begun.extend(modules)
    multiprocessing_protect()
    multiprocessing.set_forkserver_preload(list(modules))
    with kept_from_children():
        forkserver.ensure_running()


def forks(device: str) -> bool:
    """Whether the processes of ``device`` ("cpu" or "cuda") are forked."""
    return device == "cpu" and bool(_begun)


def process_context(device: str) -> ForkServerContext | SpawnContext:
    """What makes the processes of ``device``. To start one waits for the imports: call it in a
    thread.
    """
    multiprocessing_protect()
    return (
        multiprocessing.get_context("forkserver")
        if forks(device)
        else multiprocessing.get_context("spawn")
    )
