"""Whether this client and a server understand one another. The rule is in docs/compatibility.md."""

import logging

from tinkerscript.errors import IncompatibleServer, InvalidRequest
from tinkerscript.wire.server import ServerView
from tinkerscript.wire.version import VERSION

from .transport import Transport

MINIMUM_SERVER = "0.2.0"  # an older one is served as far as it goes
log = logging.getLogger("tinkerscript")
warned: set[str] = set()  # servers that were warned about, by address


def check_server(transport: Transport, *, retry_timeout_s: float) -> ServerView:
    """The server's version and what it requires. Raises IncompatibleServer; warns once about a
    server that is older.

    ``retry_timeout_s`` bounds the tries while nothing listens there; this is a client's first
    request.
    """
    server = transport.request(
        "GET", "/v1/server", response=ServerView, retry_timeout_s=retry_timeout_s
    )
    _refuse_incompatible(transport.base_url, server)
    if _parsed(server.version) < _parsed(MINIMUM_SERVER) and transport.base_url not in warned:
        warned.add(transport.base_url)
        log.warning(
            "The server at %s is version %s; this client, %s, was made for %s and newer. What the "
            "server does not know "
            "it refuses by name. Upgrade the server when you can.",
            transport.base_url, server.version, VERSION, MINIMUM_SERVER,
        )  # fmt: skip
    return server


def _refuse_incompatible(base_url: str, server: ServerView) -> None:
    major = _parsed(server.version)[0]
    if _parsed(VERSION) < _parsed(server.minimum_client):
        said, fits = (
            f"it serves clients from {server.minimum_client} on",
            f">={server.minimum_client}",
        )
    elif major < _parsed(MINIMUM_SERVER)[0]:
        said, fits = f"this client needs {MINIMUM_SERVER} or newer", f"=={major}.*"
    else:
        return
    raise IncompatibleServer(
        f"Client {VERSION} cannot work with the server at {base_url}, version {server.version}: "
        f"{said}.",
        hint=f"Install a client that fits: pip install 'tinkerscript{fits}'",
    )


def _parsed(version: str) -> tuple[int, int, int]:
    """Numbers of "major.minor.patch"; what follows the patch does not count."""
    try:
        major, minor, patch = (
            int("".join(c for c in part if c.isdigit())) for part in version.split(".")[:3]
        )
    except ValueError as failure:
        raise InvalidRequest(f"{version!r} is not a version.") from failure
    return major, minor, patch
