"""ASGI middleware around every HTTP request: an id for it, a limit for its body, and one for the
address it is from.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from console.server.address_limit import WINDOW_S, address_limited
from console.server.logs import logs_bind
from console.server.request_id import ACCEPTED, request_id_new
from tinkerscript.wire.dialects.table import prefix_of
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail

# Most requests are small; an upload has thousands of files, an episode's end as many rewards.
MAX_BODY_BYTES, MAX_LARGE_BODY_BYTES = 64 << 10, 2 << 20
TINKER_PREFIX, STORE_PREFIX = "/api/v1/", "/store/"
OF_SESSION = re.compile(r"/v1/sessions/([A-Za-z0-9_-]{1,64})")

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Asgi = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class RequestMiddleware:
    """Sends the dialects and the Tinker wire (/api/v1/) to applications that have limits of their
    own, links to objects (/store/) to theirs, the rest to Django.
    ``body_limit`` is of a path there, in bytes.
    """

    def __init__(
        self,
        *,
        dialects: Asgi,
        tinker: Asgi,
        store: Asgi,
        django: Asgi,
        body_limit: Callable[[str], int],
    ) -> None:
        self.dialects, self.tinker, self.store, self.django = dialects, tinker, store, django
        self.body_limit = body_limit

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request_id = _given_id(scope) or request_id_new()
        logs_bind(request_id=request_id)
        if of_session := OF_SESSION.match(scope["path"]):
            logs_bind(session_id=of_session[1])
        headers = [(name, value) for name, value in scope["headers"] if name != b"x-request-id"]
        scope = scope | {"headers": [*headers, (b"x-request-id", request_id.encode())]}

        async def send_with_id(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                others = [
                    (name, value)
                    for name, value in message.get("headers", [])
                    if name.lower() != b"x-request-id"
                ]
                message = message | {"headers": [*others, (b"x-request-id", request_id.encode())]}
            await send(message)

        if scope["path"].startswith(STORE_PREFIX):
            # Not by address: a wrong link costs no more than a refusal, and a right one may be a
            # body of gigabytes.
            await self.store(scope, receive, send_with_id)
        else:
            await address_limited(self._serve, _refuse_address, scope, receive, send_with_id)

    async def _serve(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if prefix_of(scope["path"]) is not None:
            await self.dialects(scope, receive, send)
            return
        if scope["path"].startswith(TINKER_PREFIX):
            await self.tinker(scope, receive, send)
            return
        limited = Limited(receive, self.body_limit(scope["path"]))
        await self.django(scope, limited, send)
        if limited.is_over:
            await _refuse(send, request_id_of(scope), limited.limit_bytes)


def request_id_of(scope: Mapping[str, Any]) -> str:
    """The id that the middleware gave the request."""
    return dict(scope["headers"])[b"x-request-id"].decode()


def _given_id(scope: dict[str, Any]) -> str | None:
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if ACCEPTED.fullmatch(given) else None


class Limited:
    """``receive`` that counts bytes. Past the limit it reports a disconnect, which ends Django's
    reading.
    """

    def __init__(self, receive: Receive, limit_bytes: int) -> None:
        self.receive, self.limit_bytes, self.size_bytes = receive, limit_bytes, 0

    @property
    def is_over(self) -> bool:
        return self.size_bytes > self.limit_bytes

    async def __call__(self) -> dict[str, Any]:
        message = await self.receive()
        self.size_bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self.is_over else message


async def refuse_all(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """An application that serves nothing: 404 to each request."""
    detail = ErrorDetail(
        code=ErrorCode.NOT_FOUND,
        message="This port serves runtimes.",
        hint="The web server has a port of its own.",
    )
    await error_send(send, 404, detail, request_id_of(scope))


async def _refuse(send: Send, request_id: str, limit_bytes: int) -> None:
    detail = ErrorDetail(
        code=ErrorCode.INVALID_REQUEST,
        message=f"The request's body is larger than {limit_bytes} bytes.",
        hint="Send less: weights go to presigned URLs, tokens never leave the session.",
    )
    await error_send(send, 413, detail, request_id)


async def _refuse_address(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """429, with the body unread."""
    retry_after_s = max(1, WINDOW_S - int(time.time()) % WINDOW_S)
    detail = ErrorDetail(
        code=ErrorCode.RATE_LIMITED,
        message="This address sent too many wrong keys.",
        hint=f"Ask again in {retry_after_s} s, with a key that is right.",
        details={"retry_after_s": retry_after_s},
    )
    after = (b"retry-after", str(retry_after_s).encode())
    await error_send(send, 429, detail, request_id_of(scope), after, (b"connection", b"close"))


async def error_send(
    send: Send, status: int, detail: ErrorDetail, request_id: str, *more: tuple[bytes, bytes]
) -> None:
    """Send the error body of REST, with ``more`` headers."""
    body = ErrorBody(error=detail, request_id=request_id).model_dump_json().encode()
    await response_send(send, status, body, *more)


async def response_send(
    send: Send, status: int, body: bytes, *more: tuple[bytes, bytes], kind: str = "application/json"
) -> None:
    """Send a whole response, with ``more`` headers."""
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
