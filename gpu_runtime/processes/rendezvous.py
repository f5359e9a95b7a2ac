"""Where the processes of a group find each other. On several machines it is a port of the first of
them (``tcp://host:port``, torch's TCPStore), which has its listening socket behind a ``#``.

On one machine it is a file: torch's FileStore, on a disk that may be silent.

torch opens and locks that file while it holds Python's lock. On a disk that does not respond, such
as a file system of several nodes whose server is away, all threads of the process would stand
still, those that say that it lives among them. So a thread that holds nothing tries the same
before, within a deadline.
"""

import fcntl
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store

REACH_S = 25.0
AT = "tcp://"
MEET_S = 300.0  # in which every rank has to come


class RendezvousSilent(RuntimeError):
    """The file could not be opened and locked in time."""


def rendezvous_open(path: str, world_size: int) -> "Store":
    """The store of ``world_size`` processes. Raises RendezvousSilent; OSError where the file cannot
    be opened.
    """
    # here and not above: a runtime's gateway loads no torch
    from torch.distributed import FileStore, TCPStore

    if path.startswith(AT):
        address, _, listener = path.removeprefix(AT).partition("#")
        host, _, port = address.rpartition(":")
        return TCPStore(
            host,
            int(port),
            world_size,
            is_master=bool(listener),
            timeout=timedelta(seconds=MEET_S),
            wait_for_workers=False,
            master_listen_fd=int(listener) if listener else None,
        )
    _reach(path)
    return FileStore(path, world_size)


def _reach(path: str) -> None:
    """Open and lock it once, as torch does for each thing that it reads or writes there."""
    failed: list[OSError] = []
    over = threading.Event()

    def reach() -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            finally:
                os.close(descriptor)
        except OSError as error:
            failed.append(error)
        over.set()

    threading.Thread(target=reach, name="reaches-rendezvous", daemon=True).start()
    if not over.wait(REACH_S):
        raise RendezvousSilent(
            f"{path} could not be opened and locked within {REACH_S:g} s: the disk that it is on "
            "does not respond"
        )
    if failed:
        raise failed[0]
