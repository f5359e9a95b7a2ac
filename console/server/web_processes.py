"""Several web processes of one machine, which need Redis, on one socket that ``manage.py up``
holds.

Each has a socket of its own besides, by which it is asked whether it works: on the shared one any
other would answer.
"""

import logging
import os
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)

# The files of prometheus_client, one for each kind of console.server.metrics, and room for every
# route's counts.
METRICS_KINDS, METRICS_FILE_BYTES = ("counter", "histogram", "gauge_livesum"), 2 << 20
PROBE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def web_names() -> list[str]:
    """The workers' names: as many as TINKERSCRIPT_WEB_PROCESSES."""
    return ["web", *(f"web-{number}" for number in range(2, settings.WEB_PROCESSES + 1))]


def web_environment() -> dict[str, str]:
    """The variables that make the workers' metrics add up. Removes what those of an earlier start
    counted."""
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "metrics").mkdir(parents=True)
    return {"PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}


def worker_metrics_begin(name: str) -> None:
    """Have this process, the worker ``name``, go on with the metrics files of the one before it;
    what that had under way is removed. To be called before a metric is made: each opens its file
    then.
    """
    # it looks for the folder in the environment when it is imported
    from prometheus_client import values

    folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
    for path in folder.glob(f"gauge_live*_{name}.db"):
        path.unlink(missing_ok=True)
    try:
        for kind in METRICS_KINDS:
            _reserve(folder / f"{kind}_{name}.db")
        values.ValueClass = values.MultiProcessValue(lambda: name)
    except OSError as error:
        log.warning("what %s counts is in no metrics until it is started again: %s", name, error)
        values.ValueClass = values.MutexValue


def _reserve(path: Path) -> None:
    """Take the blocks of a metrics file at once: to write to a page of its memory map that the disk
    has no block for ends a process by SIGBUS. Raises OSError on a full disk.
    """
    with path.open("ab") as file:
        if os.fstat(file.fileno()).st_size < METRICS_FILE_BYTES:
            os.posix_fallocate(file.fileno(), 0, METRICS_FILE_BYTES)


def probe_listener(name: str) -> socket.socket:
    """A new Unix socket of the worker ``name``, on which it is asked whether it works."""
    (_folder() / name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with socket_address(_folder(), name) as address:
        listener.bind(address)
    return listener


def web_responds(name: str, *, timeout_s: float) -> bool:
    """Whether the worker ``name`` responds on its own socket. Each step of the request may take
    ``timeout_s``.
    """
    try:
        with socket.socket(socket.AF_UNIX) as asking, socket_address(_folder(), name) as address:
            asking.settimeout(timeout_s)
            asking.connect(address)
            asking.sendall(PROBE)
            return asking.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def url_responds(url: str, *, timeout_s: float) -> bool:
    """Whether a GET of ``url`` returns 200. Each step of the request may take ``timeout_s``."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _folder() -> Path:
    return settings.DATA / "run" / "web"


@contextmanager
def socket_address(folder: Path, name: str) -> Iterator[str]:
    """The address of a socket in ``folder``. It has 107 bytes: too few for some folders, so it goes
    by the folder's number.
    """
    number = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}/{name}"
    finally:
        os.close(number)
