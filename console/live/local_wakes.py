"""Wake-ups between the processes of one machine, where no Redis carries them.

    a writer's process --(datagram)--> DATA/run/live/SESSION/*: a socket of each process that reads the record

One that is lost costs half a second: a reader looks by itself then.
"""

import asyncio
import os
import secrets
import select
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.db import transaction

from console.server.web_processes import socket_address

WAKE = b"1"
LAYER_IS_SHARED = bool(settings.REDIS_URL)
# in the place of a session's id: those hear of what is queued, and of runtimes that serve
RECONCILERS = "reconcilers"


def readers_wake(session_id: str) -> None:
    """Tell the other processes that read this session's record that there is something new. Never
    waits.
    """
    folder = _folder(session_id)
    try:
        names = (
            []
            if LAYER_IS_SHARED
            else [name for name in os.listdir(folder) if not name.startswith(_own())]
        )
    except FileNotFoundError:  # none of them reads it
        return
    for name in names:
        try:
            with (
                socket_address(folder, name) as address,
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
            ):
                sender.setblocking(False)
                sender.sendto(WAKE, address)
        except ConnectionRefusedError:  # its process has ended
            (folder / name).unlink(missing_ok=True)
        except OSError:  # it has gone, or has more wake-ups before it than it reads
            continue


def reconcilers_wake() -> None:
    """Once the surrounding transaction commits: what it leaves to the reconciler does not wait for
    the next tick.
    """
    transaction.on_commit(lambda: readers_wake(RECONCILERS), robust=True)


@contextmanager
def wakes_heard(session_id: str, wake: Callable[[], None]) -> Iterator[None]:
    """Within it, ``wake`` is called in this event loop for what other processes write. Raises
    OSError.
    """
    if LAYER_IS_SHARED:
        yield
        return
    loop, folder, name = (
        asyncio.get_running_loop(),
        _folder(session_id),
        _own() + secrets.token_hex(4),
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.setblocking(False)
        _bind(listener, folder, name)

        def read() -> None:
            with suppress(BlockingIOError):
                while listener.recv(len(WAKE)):
                    wake()

        loop.add_reader(listener, read)
        try:
            yield
        finally:
            loop.remove_reader(listener)
            (folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # another process reads the same record
                folder.rmdir()


class Pause:
    """Of a thread between two looks: as long as it says, unless another process wakes it. ``end``
    is for good.
    """

    def __init__(self, name: str) -> None:
        self._name, self._file = name, _own() + secrets.token_hex(4)
        self._told, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.is_over = False
        for each in (self._listener, self._told, self._end):
            each.setblocking(False)
        with suppress(OSError):  # a folder that cannot be written: then nothing wakes it
            _bind(self._listener, _folder(name), self._file)

    def wait(self, least_s: float, most_s: float) -> None:
        """At least and at most so long; not at all after ``end``. A wake-up in the first part ends
        it after that.
        """
        for heard, limit_s in (
            ([self._told], least_s),
            ([self._told, self._listener], most_s - least_s),
        ):
            if select.select(heard, [], [], max(0.0, limit_s))[0]:
                break
        with suppress(BlockingIOError):
            while self._listener.recv(len(WAKE)):
                pass

    def end(self) -> None:
        """From a signal's handler too."""
        self.is_over = True
        with suppress(OSError):  # it was ended before, or is closed
            self._end.send(WAKE)

    def close(self) -> None:
        """Leave nothing behind."""
        for each in (self._listener, self._told, self._end):
            each.close()
        (_folder(self._name) / self._file).unlink(missing_ok=True)


def sockets_clear() -> None:
    """Remove what processes that were killed left; none of this server's processes runs yet."""
    shutil.rmtree(settings.DATA / "run" / "live", ignore_errors=True)


def _bind(listener: socket.socket, folder: Path, name: str) -> None:
    for is_last in (False, True):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with socket_address(folder, name) as address:
                listener.bind(address)
            return
        except OSError:  # a reader that left removed the folder in between
            if is_last:
                raise


def _own() -> str:
    return f"{os.getpid()}-"  # within a process the channel layer wakes


def _folder(session_id: str) -> Path:
    return settings.DATA / "run" / "live" / session_id
