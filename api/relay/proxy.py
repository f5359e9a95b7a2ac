"""One call on its way to a gateway and back.

A request whose connection to the runtime is lost before the client got anything is sent again with the same
X-Request-Id, so a restart of the runtime looks like a slow response.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from api.gateway_client import CONNECTION_ERRORS, client
from api.relay.callers import caller_check, caller_ended
from api.relay.errors import RelayError, error_for_state, stream_error
from api.relay.limits import Holding
from api.relay.routes import routes
from console.server.metrics import RELAY_BYTES, RELAY_FIRST_BYTE_S
from console.sessions.runtime.gateway_keys import relay_key
from console.sessions.selectors import Route
from tinkerscript.processes.tracing import trace_headers
from tinkerscript.wire.sessions import SessionState

MAX_BODY_BYTES = 16 << 20
READY_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.25
RESENDS = 3  # of requests that a runtime took and died with: more would feed one that this very request kills
HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
# Headers for this server or this connection: the gateway does not get them.
REQUEST_HEADERS_DROPPED = HOP_BY_HOP | {"host", "content-length", "cookie", "expect", "x-relay-key"}
# Our own web server sets the first two. The others act on everything that this origin serves, the console too, and a
# runtime speaks for its session alone.
RESPONSE_HEADERS_DROPPED = HOP_BY_HOP | {
    "date",
    "server",
    "alt-svc",
    "clear-site-data",
    "link",
    "location",
    "nel",
    "public-key-pins",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
}

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class ClientGone(Exception):
    """The client has closed its connection."""


class ConnectionLost(Exception):
    """The runtime took the request, and its connection broke before the client got anything."""


class CountingSend:
    """``send`` that records the status and counts the bytes of the response."""

    def __init__(self, send: Send) -> None:
        self.send, self.status, self.size_bytes = send, 0, 0
        self.began_at = time.monotonic()

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            RELAY_FIRST_BYTE_S.observe(time.monotonic() - self.began_at)
        else:
            self.size_bytes += len(message["body"])
        await self.send(message)


@dataclass(frozen=True)
class RelayedCall:
    """What is passed on: to the gateway of which session, for the key or person of ``caller_id``, which may end it."""

    session_id: str
    caller_id: str
    method: str
    url_path: str  # at the gateway, with its query
    headers: CIMultiDict[str]
    body: bytes
    by_relay_key: bool = False  # in place of an episode's key among the headers
    prepare: Callable[[Route], Awaitable[None]] | None = None  # before the call is sent to the gateway there


async def proxy_until_end(call: RelayedCall, receive: Receive, send: Send) -> None:
    """To the end of the response, of the client's connection or of its API key, whichever comes first."""
    work = asyncio.create_task(_proxy(call, send))
    gone = asyncio.create_task(_client_gone(receive))
    ended = asyncio.create_task(caller_ended(call.caller_id))
    tasks = {work, gone, ended}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()  # does nothing to one that is done
        await asyncio.wait(tasks)
    if not work.cancelled():
        work.result()
    elif not ended.cancelled():
        ended.result()


async def _proxy(call: RelayedCall, send: Send) -> None:
    """Find the gateway, wait until it is ready, and send its response to the client. Raises RelayError."""
    deadline, losses = time.monotonic() + READY_TIMEOUT_S, 0
    while True:
        await caller_check(call.caller_id)
        route = await routes.get(call.session_id)
        if error := error_for_state(route):
            raise error
        if route.state is SessionState.READY and route.address:
            url = URL(f"http://{route.address}{call.url_path}", encoded=True)
            try:
                await _prepare(call, route)
                await _forward_once(call, url, route, send)
                return
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                pass  # nothing listens there: the next read of the row gives the reason or the new address
            except ConnectionLost:
                losses += 1
                deadline = time.monotonic() + READY_TIMEOUT_S
            routes.drop(call.session_id)
        if time.monotonic() >= deadline or losses > RESENDS:
            raise RelayError(
                503,
                "session_not_ready",
                f"The session's runtime is {route.state} and did not answer. Try again in a moment.",
                retry_after_s=1,
            )
        await asyncio.sleep(POLL_INTERVAL_S)


async def _prepare(call: RelayedCall, route: Route) -> None:
    """Raises ConnectionLost."""
    if call.prepare is not None:
        try:
            await call.prepare(route)
        except CONNECTION_ERRORS as error:
            raise ConnectionLost from error


async def _forward_once(call: RelayedCall, url: URL, route: Route, send: Send) -> None:
    """One try. An event stream is sent chunk by chunk; any other response once it is complete, so it can be retried.

    Raises ConnectionLost only when nothing was sent to the client yet.
    """
    is_started = False
    headers = call.headers.copy()
    headers.update(trace_headers())
    if call.by_relay_key:
        headers["X-Relay-Key"] = relay_key(session_id=route.session_id, lease_sha256=route.lease_sha256)
    try:
        async with client().request(
            call.method, url, headers=headers, data=call.body or None, allow_redirects=False
        ) as response:
            is_stream = response.content_type == "text/event-stream"
            chunks = response.content.iter_any() if is_stream else _complete(response)
            async for chunk in chunks:
                if not is_started:
                    await send(_start(response))
                    is_started = True
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not is_started:
                await send(_start(response))
                is_started = True
            await send({"type": "http.response.body", "body": b""})
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except CONNECTION_ERRORS as error:
        if not is_started:
            raise ConnectionLost from error
        # Too late to retry; and a client that sees a stream just end takes half a response for a complete one.
        await send(
            {"type": "http.response.body", "body": stream_error("The runtime went away in mid-answer.", url.path)}
        )


async def _complete(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    yield await response.read()


def _start(response: aiohttp.ClientResponse) -> dict[str, Any]:
    dropped_names = _named_by_connection(response.headers.getall("Connection", [])) | RESPONSE_HEADERS_DROPPED
    dropped = {name.encode("latin-1") for name in dropped_names}
    headers = [(name.lower(), value) for name, value in response.raw_headers if name.lower() not in dropped]
    return {"type": "http.response.start", "status": response.status, "headers": headers}


def headers_passed(raw: list[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """The headers of a request that its gateway gets."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    dropped = _named_by_connection([value for name, value in pairs if name == "connection"]) | REQUEST_HEADERS_DROPPED
    return CIMultiDict((name, value) for name, value in pairs if name not in dropped)


def _named_by_connection(values: list[str]) -> set[str]:
    return {name.strip().lower() for value in values for name in value.split(",")}


async def body_read(receive: Receive, holding: Holding | None, *, limit_bytes: int | None = None) -> bytes:
    """The request's body, kept whole because it may have to be sent again. Raises RelayError, ClientGone.

    ``holding`` counts the bytes of what is passed on; None for a body that ends here. ``limit_bytes`` is MAX_BODY_BYTES
    if it is None.
    """
    most = MAX_BODY_BYTES if limit_bytes is None else limit_bytes
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        body += piece
        if holding is not None:
            holding.add(len(piece))
        if len(body) > most:
            raise RelayError(413, "request_too_large", f"The request's body is larger than {most} bytes.")
        if not message.get("more_body", False):
            if holding is not None:
                RELAY_BYTES.labels("up").inc(len(body))
            return bytes(body)


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
