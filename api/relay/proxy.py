"""The relay's side of a call: what is read of its client, what is passed on, and how the answer is
streamed back.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any

import aiohttp
from multidict import CIMultiDict

from api.forward import POLICIES, GatewayRequest, NotReady, forward, route_served
from api.gateway_client import CONNECTION_ERRORS
from api.relay.callers import caller_check, caller_ended
from api.relay.errors import BodyTooLarge, RelayError, stream_error
from api.relay.limits import Holding
from console.server.metrics import RELAY_BYTES, RELAY_FIRST_BYTE_S
from console.server.request_limits import Receive, Send
from console.sessions.selectors import Route

MAX_BODY_BYTES = 16 << 20
BEGINNING_BYTES = 256 << 10  # of a body that is too large; more than a block of zstd takes, packed
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
# Our own web server sets the first two. The others act on everything that this origin serves, the
# console too, and a runtime speaks for its session alone.
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


class ClientGone(Exception):
    """The client has closed its connection."""


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


async def proxy_until_end(
    session_id: str, caller_id: str, request: GatewayRequest, receive: Receive, send: Send
) -> None:
    """To the end of the response, of the client's connection or of the caller's key, whichever
    comes first.

    ``caller_id`` is the key or the person that began the episode. Raises RelayError.
    """
    await first_of(
        _proxy(session_id, caller_id, request, send), caller_ended(caller_id), client_gone(receive)
    )


async def first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Until one of these ends; the others are cancelled. Raises what the first of those that ended
    raised, in the order given.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()  # does nothing to one that is done
        await asyncio.wait(tasks)
    for ended in [task for task in tasks if not task.cancelled()][:1]:
        ended.result()


async def client_gone(receive: Receive) -> None:
    """Until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _proxy(session_id: str, caller_id: str, request: GatewayRequest, send: Send) -> None:
    async def session() -> Route:
        await caller_check(caller_id)
        return await route_served(session_id)

    try:
        await forward(session, request, POLICIES["call"], partial(_deliver, send))
    except NotReady as wait:
        message = (
            f"The session's runtime is {wait.route.state} and did not answer. Try again in a "
            "moment."
        )
        raise RelayError(503, "session_not_ready", message, retry_after_s=1) from None


async def _deliver(send: Send, response: aiohttp.ClientResponse) -> None:
    """An event stream is sent chunk by chunk; any other response once it is complete: until then it
    can be retried.

    Raises CONNECTION_ERRORS only when nothing was sent to the client yet.
    """
    is_started = False
    try:
        async with response:
            is_stream = response.content_type == "text/event-stream"
            async for chunk in response.content.iter_any() if is_stream else _complete(response):
                if not is_started:
                    await send(_start(response))
                    is_started = True
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not is_started:
                await send(_start(response))
                is_started = True
            await send({"type": "http.response.body", "body": b""})
    except CONNECTION_ERRORS:
        if not is_started:
            raise
        # Too late to retry; and a client that sees a stream just end takes half a response for a
        # complete one.
        last = stream_error("The runtime went away in mid-answer.", response.url.path)
        await send({"type": "http.response.body", "body": last})


async def _complete(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    yield await response.read()


def _start(response: aiohttp.ClientResponse) -> dict[str, Any]:
    dropped_names = (
        _named_by_connection(response.headers.getall("Connection", [])) | RESPONSE_HEADERS_DROPPED
    )
    dropped = {name.encode("latin-1") for name in dropped_names}
    headers = [
        (name.lower(), value) for name, value in response.raw_headers if name.lower() not in dropped
    ]
    return {"type": "http.response.start", "status": response.status, "headers": headers}


def headers_passed(raw: list[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """The headers of a request that its gateway gets."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    dropped = (
        _named_by_connection([value for name, value in pairs if name == "connection"])
        | REQUEST_HEADERS_DROPPED
    )
    return CIMultiDict((name, value) for name, value in pairs if name not in dropped)


def _named_by_connection(values: list[str]) -> set[str]:
    return {name.strip().lower() for value in values for name in value.split(",")}


async def body_read(
    receive: Receive, holding: Holding | None, *, limit_bytes: int | None = None
) -> bytes:
    """The request's body, kept whole because it may have to be sent again. Raises RelayError,
    ClientGone.

    ``holding`` counts the bytes of what is passed on; None for a body that ends here.
    ``limit_bytes`` is MAX_BODY_BYTES if it is None.
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
            raise BodyTooLarge(most, bytes(body[:BEGINNING_BYTES]))
        if not message.get("more_body", False):
            if holding is not None:
                RELAY_BYTES.labels("up").inc(len(body))
            return bytes(body)
