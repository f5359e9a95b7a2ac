"""How a runtime starts the processes of its engine and its trainer, and what has to be kept from
them.

What they import takes seconds of computing in each. On a CPU one process, Python's fork server,
imports it once while the main process imports its own part, and the others are forked from it. CUDA
does not survive a fork: on a GPU they are spawned.

multiprocessing gets two things wrong where several threads start processes and ask for their end
(seen in Python 3.11). It gives a program that it starts the variables of this process as they lie
in memory, and other threads run while the kernel reads them. An engine is started beside the
trainer, and both vLLM and its start here set variables for a while: where one is taken away at that
moment the kernel finds no address (EFAULT), and nothing is heard but exit code 255. And of two
threads that ask at once how a process ended, one is told 255, or that it has not ended.

The notice that a machine is taken away is for the runtime's main process alone. Slurm, where it is
not told otherwise, sends SIGTERM to every process of a job that it preempts. The engine and the
ranks would end at once, with a state in them that is not stored yet.
"""

import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from multiprocessing import forkserver, popen_fork, popen_forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

VARIABLE = "TINKERSCRIPT_RUNTIME_NOTICE_S"
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


@contextmanager
def kept_from_children() -> Iterator[None]:
    """No SIGTERM reaches the processes that this thread starts inside the block, nor theirs; they
    end by SIGKILL.

    Where a runtime is given no notice, nothing changes. Blocked and not ignored: vLLM sets handlers
    of its own.
    """
    if os.environ.get(VARIABLE, "0").strip() in ("", "0"):
        yield
        return
    # starting it with the first child, multiprocessing would unblock SIGTERM again
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def environment_now() -> dict[str, str]:
    """This process's variables, whatever other threads do to them meanwhile."""
    while True:
        with suppress(KeyError):  # one was taken away between its name and its value
            return dict(os.environ)


def multiprocessing_protect() -> None:
    """Put both right in this process, vLLM's own use of it too; again it changes nothing.

    A program that cannot be started raises OSError then.
    """
    vars(util)["spawnv_passfds"] = _start
    for kind in (popen_fork.Popen, popen_forkserver.Popen):
        if not hasattr(kind.poll, "is_in_turn"):
            setattr(kind, "poll", _in_turn(kind.poll))  # noqa: B010 - a method of a class of Python's


def _start(path: bytes, args: Sequence[str], passfds: Sequence[int]) -> int:
    """As multiprocessing's own."""
    started = subprocess.Popen(
        args, executable=path, pass_fds=tuple(passfds), env=environment_now(), restore_signals=False
    )
    started.returncode = 0  # multiprocessing waits for the process, not this object
    return started.pid


def _in_turn(ask: Callable[..., int | None]) -> Any:
    @wraps(ask)
    def asked(process: Any, flag: int = os.WNOHANG) -> int | None:
        with vars(process).setdefault("turn", threading.Lock()):
            return ask(process, flag)

    vars(asked)["is_in_turn"] = True
    return asked


def bars_lock_set() -> None:
    """Have every progress bar of this process, and of those that are forked from it, use a lock of
    its threads. Nobody shares ours.

    tqdm makes a lock that processes could share. In one that was spawned, or forked by a fork
    server, that is a semaphore with a name (``/dev/shm/sem.mp-*``), which stays there for ever when
    the process is killed.
    """
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())
