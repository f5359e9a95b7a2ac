"""Wake-ups between the processes of one machine, where no Redis carries them.

    a writer's process --(datagram)--> DATA/run/live/SESSION/*: a socket of each process that reads the record

One that is lost costs half a second: a reader looks by itself then.
"""

import asyncio
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

WAKE = b"1"
LAYER_IS_SHARED = bool(settings.REDIS_URL)


def readers_wake(session_id: str) -> None:
    """Tell the other processes that read this session's record that there is something new. Never waits."""
    folder = _folder(session_id)
    try:
        names = [] if LAYER_IS_SHARED else [name for name in os.listdir(folder) if not name.startswith(_own())]
    except FileNotFoundError:  # none of them reads it
        return
    for name in names:
        try:
            with _address(folder, name) as address, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(WAKE, address)
        except ConnectionRefusedError:  # its process has ended
            (folder / name).unlink(missing_ok=True)
        except OSError:  # it has gone, or has more wake-ups before it than it reads
            continue


@contextmanager
def wakes_heard(session_id: str, wake: Callable[[], None]) -> Iterator[None]:
    """Within it, ``wake`` is called in this event loop for what other processes write. Raises OSError."""
    if LAYER_IS_SHARED:
        yield
        return
    loop, folder, name = asyncio.get_running_loop(), _folder(session_id), _own() + secrets.token_hex(4)
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


def sockets_clear() -> None:
    """Remove what processes that were killed left; none of this server's processes runs yet."""
    shutil.rmtree(settings.DATA / "run" / "live", ignore_errors=True)


def _bind(listener: socket.socket, folder: Path, name: str) -> None:
    for is_last in (False, True):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _address(folder, name) as address:
                listener.bind(address)
            return
        except OSError:  # a reader that left removed the folder in between
            if is_last:
                raise


def _own() -> str:
    return f"{os.getpid()}-"  # within a process the channel layer wakes


def _folder(session_id: str) -> Path:
    return settings.DATA / "run" / "live" / session_id


@contextmanager
def _address(folder: Path, name: str) -> Iterator[str]:
    """A socket's address has 107 bytes: too few for some folders, so it goes by the folder's number."""
    number = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}/{name}"
    finally:
        os.close(number)
