"""Why a child process ended: its exit code, and the last lines of its standard error.

An exit code names no cause. The cause is on standard error: an exception, an abort message of a C
or C++ library, the Python stack at a signal (``errors_captured``). This process passes all of it
on to its own standard error and keeps the end.
"""

import faulthandler
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

STANDARD_ERROR = 2
READ_BYTES, KEPT_BYTES, LINES = 1 << 16, 1 << 12, 12
# for what is still under way; a process that it has started may hold its standard error for longer
REST_S = 2.0


class ExitReport:
    """Of one process: ``far`` becomes its standard error, and ``begin`` is called once it has
    it.
    """

    def __init__(self, name: str) -> None:
        self._near, self.far = Pipe(duplex=False)
        self._kept = b""
        self._thread = threading.Thread(target=self._pass_on, name=f"stderr-{name}", daemon=True)

    def begin(self) -> None:
        """Pass on what comes, until the process ends."""
        self.far.close()
        self._thread.start()

    def end_of(self, exitcode: int | None) -> str:
        """In words how the process ended: "was killed", or what else it was and its last lines."""
        how = exit_text(exitcode)
        if exitcode == -signal.SIGKILL:
            return how
        self._thread.join(REST_S)
        lines = [line for line in self._kept.decode(errors="replace").splitlines() if line.strip()]
        return (
            f"{how} (its last lines: {chr(10).join(lines[-LINES:])})"
            if lines
            else f"{how} (it wrote nothing)"
        )

    def _pass_on(self) -> None:
        with self._near:
            while data := os.read(self._near.fileno(), READ_BYTES):
                self._kept = (self._kept + data)[-KEPT_BYTES:]
                with suppress(OSError):  # nobody reads ours any more
                    while data:
                        data = data[os.write(STANDARD_ERROR, data) :]


def exit_text(exitcode: int | None) -> str:
    """How a process ended, by its exit code as multiprocessing has it: a signal's number is
    negative.
    """
    if exitcode is None or exitcode >= 0:
        return f"ended with exit code {exitcode}"
    if exitcode == -signal.SIGKILL:
        return "was killed"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-exitcode).name}"
    return f"was ended by signal {-exitcode}"


@contextmanager
def errors_captured(far: Connection | None = None) -> Iterator[None]:
    """In the process itself: ``far`` becomes its standard error, and whatever ends the block is
    seen there.

    At a signal the stack of the thread that it ends, and of none besides: faulthandler reads
    others' unguarded.
    """
    if far is not None:
        os.dup2(far.fileno(), STANDARD_ERROR)
        far.close()
    faulthandler.enable(STANDARD_ERROR, all_threads=False)
    try:
        yield
    except SystemExit:
        traceback.print_exc()
        raise
