"""The notice that a machine is taken away is for the runtime's main process alone.

Slurm, where it is not told otherwise, sends SIGTERM to every process of a job that it preempts. The
engine and the ranks would end at once, with a state in them that is not stored yet.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

VARIABLE = "TINKERSCRIPT_RUNTIME_NOTICE_S"


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
