"""Where the lease process listens: the address that runtimes are given where no other one is set.

The port is kept in DATA/run, so that runtimes that outlive a server that was killed find its successor.
"""

import socket
from contextlib import suppress
from pathlib import Path

from django.conf import settings

BACKLOG = 1024


def lease_listener() -> socket.socket | None:
    """A listening socket for the lease process, or None where runtimes were given another address and no port is set.

    The port of the settings on HOST, else the one of the last start on this machine alone, else a free one. Raises
    OSError when the port of the settings is taken.
    """
    if settings.LEASE_PORT:
        return _listen(settings.HOST, settings.LEASE_PORT)
    if settings.RUNTIME_SERVER_URL:
        return None
    listener = None
    if kept := _kept_port():
        with suppress(OSError):
            listener = _listen("127.0.0.1", kept)
    listener = listener or _listen("127.0.0.1", 0)
    _path().parent.mkdir(parents=True, exist_ok=True)
    _path().write_text(str(listener.getsockname()[1]))
    return listener


def lease_address_forget() -> None:
    """Nobody listens there any more."""
    _path().unlink(missing_ok=True)


def runtime_server_url() -> str:
    """The origin at which a runtime that is started now finds the server."""
    if settings.RUNTIME_SERVER_URL:
        return settings.RUNTIME_SERVER_URL
    if settings.LEASE_URL:
        return settings.LEASE_URL
    port = _kept_port()
    return f"http://127.0.0.1:{port}" if port else settings.INTERNAL_URL


def _kept_port() -> int:
    with suppress(OSError, ValueError):
        return int(_path().read_text())
    return 0


def _path() -> Path:
    return settings.DATA / "run" / "lease_port"


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
