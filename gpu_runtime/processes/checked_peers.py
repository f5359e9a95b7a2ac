"""httpx's clients, whose new connections are verified before anything is sent
(tinkerscript/processes/port_owner.py).

By httpcore's `trace` extension, which is told of each connection as it is made. A connection with
TLS is verified by its certificate.
"""

import ssl
from functools import cache
from typing import Any

import httpx

from tinkerscript.processes.port_owner import peer_verify

CONNECTED = "connection.connect_tcp.complete"


@cache
def tls_context() -> ssl.SSLContext:
    """The certificates by which every client knows the control plane and the store. To read them
    takes 25 ms or more of the loop that serves the gateway, and each step opens several clients.
    """
    return httpx.create_ssl_context(trust_env=False)


def peers_checked(request: httpx.Request) -> None:
    """An event hook for requests of a `httpx.Client`: who is not ours is a ConnectError."""
    if request.url.scheme == "http":
        request.extensions["trace"] = _look


async def peers_checked_async(request: httpx.Request) -> None:
    """As ``peers_checked``, of a `httpx.AsyncClient`."""
    if request.url.scheme == "http":
        request.extensions["trace"] = _look_async


def _look(event: str, details: dict[str, Any]) -> None:
    if event == CONNECTED:
        stream = details["return_value"]
        try:
            peer_verify(stream.get_extra_info("socket"))
        except OSError as error:
            stream.close()
            raise httpx.ConnectError(str(error)) from error


async def _look_async(event: str, details: dict[str, Any]) -> None:
    if event == CONNECTED:
        stream = details["return_value"]
        try:
            peer_verify(stream.get_extra_info("socket"))
        except OSError as error:
            await stream.aclose()
            raise httpx.ConnectError(str(error)) from error
