"""What multiprocessing gets wrong where several threads start processes and ask for their end (seen
in Python 3.11).

It gives a program that it starts the variables of this process as they lie in memory, and other
threads run while the kernel reads them. An engine is started beside the trainer, and both vLLM and
its start here set variables for a while: where one is taken away at that moment the kernel finds no
address (EFAULT), and nothing is heard but exit code 255.

Of two threads that ask at once how a process ended, one is told 255, or that it has not ended.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from multiprocessing import popen_fork, popen_forkserver, util
from typing import Any


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
