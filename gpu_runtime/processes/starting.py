"""Programs that this process starts are given its variables at one moment, and say why they did not start.

Python gives a program that it starts the variables as they lie in memory, and other threads run while the kernel reads
them. An engine is started beside the trainer, and both vLLM and its start here set variables for a while: where one is
taken away at that moment the kernel finds no address (EFAULT). Of what multiprocessing starts nothing is heard then
but exit code 255.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import util


def environment_now() -> dict[str, str]:
    """This process's variables, whatever other threads do to them meanwhile."""
    while True:
        with suppress(KeyError):  # one was taken away between its name and its value
            return dict(os.environ)


def starts_protect() -> None:
    """From now on multiprocessing starts its programs here. Raises OSError for one that cannot be started."""
    vars(util)["spawnv_passfds"] = _start


def _start(path: bytes, args: Sequence[str], passfds: Sequence[int]) -> int:
    """As multiprocessing's own."""
    started = subprocess.Popen(
        args, executable=path, pass_fds=tuple(passfds), env=environment_now(), restore_signals=False
    )
    started.returncode = 0  # multiprocessing waits for the process, not this object
    return started.pid
