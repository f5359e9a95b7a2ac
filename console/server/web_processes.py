"""Several web processes of one machine on one socket, which ``manage.py up`` holds: requests wait in it for one.

Each has a socket of its own besides, by which it is asked whether it works: on the shared one any other would answer.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

MOST = 4
PROBE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def web_names() -> list[str]:
    """One for every two cores that this process may use, four at most: lease process, reconciler, database and
    runtimes have the others. One where DATA is on a volume of a cluster, on which they could not share a file."""
    count = min(len(os.sched_getaffinity(0)) // 2, MOST) if settings.LAUNCHER.names_devices else 1
    return ["web", *(f"web-{number}" for number in range(2, count + 1))]


def web_environment() -> dict[str, str]:
    """What makes them count together; what processes of an earlier start counted is removed."""
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("", "-wal", "-shm"):
        (settings.DATA / "run" / f"counts.sqlite3{name}").unlink(missing_ok=True)
    (folder / "metrics").mkdir(parents=True)
    return {"TINKERSCRIPT_SHARED_COUNTS": "1", "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}


def probe_listener(name: str) -> socket.socket:
    """For the worker of that name: where it is asked."""
    (_folder() / name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with _address(name) as address:
        listener.bind(address)
    return listener


def web_responds(name: str, *, timeout_s: float) -> bool:
    """Whether the worker of that name does."""
    try:
        with socket.socket(socket.AF_UNIX) as asking, _address(name) as address:
            asking.settimeout(timeout_s)
            asking.connect(address)
            asking.sendall(PROBE)
            return asking.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def _folder() -> Path:
    return settings.DATA / "run" / "web"


@contextmanager
def _address(name: str) -> Iterator[str]:
    """A socket's address has 107 bytes: too few for some folders, so it goes by the folder's number."""
    number = os.open(_folder(), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}/{name}"
    finally:
        os.close(number)
