"""A client's connection: by which address and key, and whether it and the server understand one
another. The rule is in docs/compatibility.md.
"""

import logging
import os

from tinkerscript.errors import AuthenticationError, IncompatibleServer, InvalidRequest
from tinkerscript.wire.server import ServerView
from tinkerscript.wire.version import VERSION

from .http_client import HttpOptions
from .transport import Transport

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
# A wrong address should say so soon: with the imports before it, within 3 s on a busy machine.
FIRST_CONTACT_RETRY_S = 1.0
MINIMUM_SERVER = "0.2.0"  # an older one is served as far as it goes
log = logging.getLogger("tinkerscript")
warned: set[str] = set()  # servers that were warned about, by address


def connect(
    base_url: str | None = None,
    api_key: str | None = None,
    *,
    retry_timeout_s: float = 300.0,
    options: HttpOptions = HttpOptions(),
    first_contact_s: float | None = None,
) -> Transport:
    """A connection by the given or the environment's address and key, to a server that serves this
    client. Raises AuthenticationError without a key, IncompatibleServer.

    ``first_contact_s`` bounds the tries while nothing listens there, FIRST_CONTACT_RETRY_S if
    absent.
    """
    base_url = base_url or os.environ.get("TINKERSCRIPT_BASE_URL") or DEFAULT_BASE_URL
    api_key = (api_key or os.environ.get("TINKERSCRIPT_API_KEY") or "").strip()
    where = (
        f"Make one in the console at {base_url.rstrip('/')}/ or, on the server, with "
        "`python manage.py create_api_key EMAIL`; then set TINKERSCRIPT_API_KEY or pass api_key."
    )
    if not api_key:
        raise AuthenticationError("There is no API key.", hint=where)
    if (
        not api_key.isascii()
        or not api_key.isprintable()
        or any(mark in api_key for mark in " '\"")
    ):
        raise AuthenticationError(
            "The API key has characters that no key has. Give the key alone, without `Bearer` or "
            "quotes.",
            hint=where,
        )
    transport = Transport(base_url, api_key, retry_timeout_s=retry_timeout_s, options=options)
    first_contact_s = FIRST_CONTACT_RETRY_S if first_contact_s is None else first_contact_s
    try:
        _check_server(transport, retry_timeout_s=min(first_contact_s, retry_timeout_s))
    except BaseException:
        transport.close()
        raise
    return transport


def _check_server(transport: Transport, *, retry_timeout_s: float) -> None:
    """Raises IncompatibleServer; warns once about a server that is older."""
    server = transport.request(
        "GET", "/v1/server", response=ServerView, retry_timeout_s=retry_timeout_s
    )
    _refuse_incompatible(transport.base_url, server)
    if _parsed(server.version) < _parsed(MINIMUM_SERVER) and transport.base_url not in warned:
        warned.add(transport.base_url)
        log.warning(
            "The server at %s is version %s; this client, %s, was made for %s and newer. What the "
            "server does not know it refuses by name. Upgrade the server when you can.",
            transport.base_url, server.version, VERSION, MINIMUM_SERVER,
        )  # fmt: skip


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
