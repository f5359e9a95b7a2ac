"""Where the lease process listens: the address that runtimes are given where no other one is set.

The port is kept in DATA/run for good: runtimes find the next server after one that was killed or
failed to start.
"""

import logging
import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from tinkerscript.processes.port_owner import is_trusted, listener_user

log = logging.getLogger(__name__)

BACKLOG = 1024
# Below those that the system hands to clients, and above the object store's: while a server is
# started anew, no connection of another process can be given it.
PORT_RANGE = range(23_000, 30_000)
PORTS_TRIED = 100
# What a predecessor that is being killed holds is free again by then.
WAIT_S, POLL_S = 3.0, 0.1


def lease_listener(
    *, wait_s: float = WAIT_S, on_lost: Callable[[int], object] = lambda port: None
) -> socket.socket | None:
    """A listening socket for the lease process, or None where runtimes were given another address
    and no port is set.

    The port of the settings on HOST, else the one of the last start on this machine alone, which is
    waited for, else a free one. Raises OSError when the port of the settings is taken, or none is
    free. ``on_lost`` is called with the port of the last start that another program has: the leases
    of who looks for us there are good no more.
    """
    if settings.LEASE_PORT:
        return listen(settings.HOST, settings.LEASE_PORT)
    if settings.RUNTIME_SERVER_URL:
        return None
    kept = _kept_port()
    listener = _listen_when_free(kept, wait_s) if kept else None
    if listener is None:
        listener = _listen_anew()
        port = listener.getsockname()[1]
        if kept:
            log.warning(
                "port %d is taken: the lease process has %d, where no running runtime looks",
                kept,
                port,
            )
            on_lost(kept)
        _path().parent.mkdir(parents=True, exist_ok=True)
        _path().write_text(str(port))
    return listener


def runtime_server_url() -> str:
    """The origin at which a runtime that is started now finds the server."""
    if settings.RUNTIME_SERVER_URL:
        return settings.RUNTIME_SERVER_URL
    if settings.LEASE_URL:
        return settings.LEASE_URL
    port = _kept_port()
    return f"http://127.0.0.1:{port}" if port and _is_ours(port) else settings.INTERNAL_URL


def _is_ours(port: int) -> bool:
    """Not where a server of several processes was started by hand in the folder of an earlier
    ``manage.py up``, and not while another user of this machine listens there."""
    uid = listener_user("127.0.0.1", port)
    return uid is not None and is_trusted(uid)


def _listen_when_free(port: int, wait_s: float) -> socket.socket | None:
    until = time.monotonic() + wait_s
    while True:
        with suppress(OSError):
            return listen("127.0.0.1", port)
        if time.monotonic() >= until:
            return None
        time.sleep(POLL_S)


def _listen_anew() -> socket.socket:
    for port in random.sample(PORT_RANGE, PORTS_TRIED):
        with suppress(OSError):
            return listen("127.0.0.1", port)
    return listen("127.0.0.1", 0)


def _kept_port() -> int:
    with suppress(OSError, ValueError):
        return int(_path().read_text())
    return 0


def _path() -> Path:
    return settings.DATA / "run" / "lease_port"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket there. Raises OSError."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
