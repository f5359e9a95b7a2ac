"""A limit per address for refused credentials, which holds before the next one is looked up.

Keys, people and links have limits of their own; a wrong key has none, and costs a query each time.
Whoever this process has let in within an hour passes all the same: a stranger behind the same
router shuts nobody else out. Requests that are served at the same time may exceed the limit.
"""

import ipaddress
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache import cache

WINDOW_S = 10
LIMIT = 300  # in a window
KNOWN_S, MAX_KNOWN = 3600.0, 100_000
IPV6_PREFIX = 64  # what one household has; of IPv4 it is an address
CREDENTIALS = (b"authorization", b"x-api-key", b"cookie")
UNAUTHENTICATED = (401, 4401)  # the status of a response, the code of a websocket's end

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
known: dict[int, float] = {}  # until when, by a hash of the credential
credential_now: ContextVar[int] = ContextVar("credential_now", default=0)


def caller_known() -> None:
    """Note that the credential of the request that is served now was right."""
    if len(known) >= MAX_KNOWN:
        known.clear()
    known[credential_now.get()] = time.monotonic() + KNOWN_S


async def address_limited(
    serve: Asgi,
    refuse: Asgi,
    scope: dict[str, Any],
    receive: Any,
    send: Any,
) -> None:
    """``serve``, or ``refuse`` an unknown caller whose address sent too many wrong credentials."""
    credential = b"|".join(value for name, value in scope["headers"] if name in CREDENTIALS)
    name, key = hash(credential), f"refused:{address_of(scope)}:{int(time.time() // WINDOW_S)}"
    is_known = not credential or known.get(name, 0.0) > time.monotonic()
    if not is_known and await cache.aget(key, 0) >= LIMIT:
        await refuse(scope, receive, send)
        return

    async def send_seen(message: dict[str, Any]) -> None:
        if credential and (message.get("status") or message.get("code")) in UNAUTHENTICATED:
            known.pop(name, None)
            await sync_to_async(_count)(key)
        await send(message)

    before = credential_now.set(name)
    try:
        await serve(scope, receive, send_seen)
    finally:
        credential_now.reset(before)


def _count(key: str) -> None:
    cache.add(key, 0, WINDOW_S)
    try:
        cache.incr(key)
    except ValueError:  # the window ended in between
        return


def limited_handshakes(inner: Asgi) -> Asgi:
    """Websockets, whose handshake is refused (403) past the limit."""

    async def refuse(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()  # websocket.connect
        await send({"type": "websocket.close"})

    async def serve(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await address_limited(inner, refuse, scope, receive, send)

    return serve


def address_of(scope: Mapping[str, Any]) -> str:
    """The client's address, as far as proxies of ours say it; of IPv6 its network. Empty for a
    socket without one.
    """
    client = scope.get("client")
    address = client[0] if client else ""
    if trusted := settings.ALLAUTH_TRUSTED_PROXY_COUNT:
        named = b",".join(
            value for name, value in scope["headers"] if name == b"x-forwarded-for"
        ).split(b",")
        address = (
            named[-trusted].decode("latin-1").strip()
            if named[0] and len(named) >= trusted
            else address
        )
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if ip.version == 4:
        return str(ip)
    mapped = ip.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network(f"{ip}/{IPV6_PREFIX}", strict=False))
