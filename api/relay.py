"""The way of an LLM call: ``/openai/v1/*`` with an episode key, to the gateway that serves the episode, and back.

A pure ASGI application. It authenticates by signature, looks the route up in memory, and moves bytes: it parses no
body. A request whose connection to the runtime is lost before we answered anything is sent again with the same
X-Request-Id, so a restart of the runtime looks like a slow answer.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from api.relay_callers import caller_check, caller_ended
from api.relay_keys import claim_of
from api.relay_refusals import PREFIX, Refusal, refusal_for_state, stream_error
from api.relay_routes import routes
from api.upstream import CONNECTION_ERRORS, client
from console.logs import logs_bind
from console.metrics import RELAY_BYTES, RELAY_IN_FLIGHT, RELAY_REQUESTS
from tinkerscript.wire.episode_key import EpisodeClaim
from tinkerscript.wire.sessions import SessionState

BODY_LIMIT_BYTES = 16 << 20
READY_TIMEOUT_S = 120.0
LOOK_AGAIN_S = 0.25
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
# Ours or the connection's, none of the gateway's business.
NOT_SENT_ON = HOP_BY_HOP | {"host", "content-length", "cookie", "expect", "x-relay-key"}
# The server that answers says these of itself.
NOT_SENT_BACK = HOP_BY_HOP | {"date", "server"}

logger = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class ClientGone(Exception):
    """There is nobody left to answer."""


class ConnectionLost(Exception):
    """The runtime took the request and went away before we answered anything."""


class Counted:
    """``send`` that keeps what the client was told."""

    def __init__(self, send: Send) -> None:
        self.send, self.status, self.size_bytes = send, 0, 0

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size_bytes += len(message["body"])
        await self.send(message)


async def relay(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """One request. When the client goes away, so does the request upstream, at once."""
    counted = Counted(send)
    try:
        with RELAY_IN_FLIGHT.track_inprogress():
            await _relay(scope, receive, counted)
    except Refusal as refusal:
        if counted.status:  # the key ended in mid-answer
            error = stream_error(refusal.message, scope["path"])
            await counted({"type": "http.response.body", "body": error})
        else:
            await refusal.send(counted, scope["path"])
    except ClientGone:
        pass
    except Exception:
        # A server that is told of an error after the answer began can only break; the client is told here instead.
        logger.exception("The relay failed")
        if counted.status:
            error = stream_error("The relay failed in mid-answer.", scope["path"])
            await counted({"type": "http.response.body", "body": error})
        else:
            refusal = Refusal(500, "internal", "Something went wrong on the server. Try again.")
            await refusal.send(counted, scope["path"])
    finally:
        RELAY_REQUESTS.labels(counted.status or "gone").inc()
        RELAY_BYTES.labels("down").inc(counted.size_bytes)


async def _relay(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    claim = claim_of(scope["headers"])
    url_path = _path(scope)
    logs_bind(session_id=claim.session_id)
    body = await _read(receive)
    RELAY_BYTES.labels("up").inc(len(body))
    work = asyncio.create_task(_carry(scope, claim, url_path, body, send))
    gone = asyncio.create_task(_client_gone(receive))
    ended = asyncio.create_task(caller_ended(claim.key_id))
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


async def _carry(scope: dict[str, Any], claim: EpisodeClaim, url_path: str, body: bytes, send: Send) -> None:
    """Find the gateway, wait for it if need be, and bring its answer. Raises Refusal."""
    headers = _request_headers(scope["headers"])
    deadline, losses = time.monotonic() + READY_TIMEOUT_S, 0
    while True:
        await caller_check(claim.key_id)
        route = await routes.get(claim.session_id)
        if refusal := refusal_for_state(route):
            raise refusal
        if route.state is SessionState.READY and route.address:
            url = URL(f"http://{route.address}{url_path}", encoded=True)
            try:
                await _exchange(scope["method"], url, headers, body, send)
                return
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                # nobody there: the row will say so, or where it is now
                pass
            except ConnectionLost:
                losses += 1
                deadline = time.monotonic() + READY_TIMEOUT_S
            routes.drop(claim.session_id)
        if time.monotonic() >= deadline or losses > RESENDS:
            raise Refusal(
                503,
                "session_not_ready",
                f"The session's runtime is {route.state} and did not answer. Try again in a moment.",
                retry_after_s=1,
            )
        await asyncio.sleep(LOOK_AGAIN_S)


async def _exchange(method: str, url: URL, headers: CIMultiDict[str], body: bytes, send: Send) -> None:
    """One try. An event stream is passed on piece by piece; any other answer once it is whole, so it can be retried.

    Raises ConnectionLost only when nothing was sent to the client yet.
    """
    is_started = False
    try:
        async with client().request(method, url, headers=headers, data=body or None, allow_redirects=False) as answer:
            is_stream = answer.content_type == "text/event-stream"
            pieces = answer.content.iter_any() if is_stream else _whole(answer)
            async for piece in pieces:
                if not is_started:
                    await send(_start(answer))
                    is_started = True
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if not is_started:
                await send(_start(answer))
                is_started = True
            await send({"type": "http.response.body", "body": b""})
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except CONNECTION_ERRORS as error:
        if not is_started:
            raise ConnectionLost from error
        # Too late to begin again: a client that only saw the stream end would take half an answer for a whole one.
        await send(
            {"type": "http.response.body", "body": stream_error("The runtime went away in mid-answer.", url.path)}
        )


async def _whole(answer: aiohttp.ClientResponse):
    yield await answer.read()


def _start(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    not_sent = _named_by_connection(answer.headers.getall("Connection", [])) | NOT_SENT_BACK
    dropped = {name.encode("latin-1") for name in not_sent}
    headers = [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in dropped]
    return {"type": "http.response.start", "status": answer.status, "headers": headers}


def _request_headers(raw: list[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    dropped = _named_by_connection([value for name, value in pairs if name == "connection"]) | NOT_SENT_ON
    return CIMultiDict((name, value) for name, value in pairs if name not in dropped)


def _named_by_connection(values: list[str]) -> set[str]:
    return {name.strip().lower() for value in values for name in value.split(",")}


def _path(scope: dict[str, Any]) -> str:
    """The gateway's path and query, exactly as sent. Raises Refusal for anything that could leave /v1/."""
    path = scope["path"].removeprefix(PREFIX)
    if not path.startswith("/v1/") or {".", ".."} & set(path.split("/")) or "\\" in path:
        raise Refusal(404, "not_found", f"There is nothing at {scope['path']}. The base_url ends in /openai/v1.")
    raw = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    return raw.decode("ascii").removeprefix(PREFIX) + (f"?{query.decode('ascii')}" if query else "")


async def _read(receive: Receive) -> bytes:
    """The request's body, kept whole because it may have to be sent again. Raises Refusal, ClientGone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT_BYTES:
            raise Refusal(413, "request_too_large", f"The request's body is larger than {BODY_LIMIT_BYTES} bytes.")
        if not message.get("more_body", False):
            return bytes(body)


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
