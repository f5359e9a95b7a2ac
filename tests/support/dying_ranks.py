"""Ranks that end in the middle of their first command, each in its way, for tests of what is said
of that.
"""

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection

from gpu_runtime.training.rank_spec import RankSpec


def exits(connection: Connection, spec: RankSpec) -> None:
    """As a library does that gives up."""
    connection.recv()
    sys.exit(-1)


def raises(connection: Connection, spec: RankSpec) -> None:
    """Outside of what a rank reports as a failed command."""
    connection.recv()
    raise KeyError("no such weight")


def aborts(connection: Connection, spec: RankSpec) -> None:
    """As a library of C++ does over an exception that nobody catches."""
    connection.recv()
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def reads_nowhere(connection: Connection, spec: RankSpec) -> None:
    """A mistake in native code."""
    connection.recv()
    ctypes.string_at(0)


def exits_in_c(connection: Connection, spec: RankSpec) -> None:
    """Without a word."""
    connection.recv()
    os._exit(3)


def is_told_to_end(connection: Connection, spec: RankSpec) -> None:
    """By someone who may."""
    connection.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()


def is_killed(connection: Connection, spec: RankSpec) -> None:
    """As the kernel does when memory runs out."""
    connection.recv()
    print("a line that explains nothing", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
