"""What every HTTP request passes first: it gets an id, and its body has a size that we are willing to hold."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from console.logs import logs_bind
from console.request_id import ACCEPTED, request_id_new
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail

BODY_LIMIT_BYTES = 2 << 20
RELAY_PREFIX = "/openai/"
OF_SESSION = re.compile(r"/v1/sessions/([A-Za-z0-9_-]{1,64})")

Asgi = Callable[[dict[str, Any], Callable[[], Awaitable[dict]], Callable[[dict], Awaitable[None]]], Awaitable[None]]


class Doorway:
    """Sends /openai/ to the relay (which has a limit of its own) and everything else to Django."""

    def __init__(self, *, relay: Asgi, django: Asgi) -> None:
        self.relay, self.django = relay, django

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        request_id = _given_id(scope) or request_id_new()
        logs_bind(request_id=request_id)
        if of_session := OF_SESSION.match(scope["path"]):
            logs_bind(session_id=of_session[1])
        headers = [(name, value) for name, value in scope["headers"] if name != b"x-request-id"]
        scope = scope | {"headers": [*headers, (b"x-request-id", request_id.encode())]}

        async def send_with_id(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                others = [
                    (name, value) for name, value in message.get("headers", []) if name.lower() != b"x-request-id"
                ]
                message = message | {"headers": [*others, (b"x-request-id", request_id.encode())]}
            await send(message)

        if scope["path"].startswith(RELAY_PREFIX):
            await self.relay(scope, receive, send_with_id)
            return
        limited = Limited(receive)
        await self.django(scope, limited, send_with_id)
        if limited.is_over:
            await _refuse(send_with_id, request_id)


def _given_id(scope: dict[str, Any]) -> str | None:
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if ACCEPTED.fullmatch(given) else None


class Limited:
    """``receive`` that counts. Past the limit it hangs up: Django, which reads the whole body first, says nothing."""

    def __init__(self, receive: Callable) -> None:
        self.receive, self.size_bytes = receive, 0

    @property
    def is_over(self) -> bool:
        return self.size_bytes > BODY_LIMIT_BYTES

    async def __call__(self) -> dict[str, Any]:
        message = await self.receive()
        self.size_bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self.is_over else message


async def _refuse(send: Callable, request_id: str) -> None:
    detail = ErrorDetail(
        code=ErrorCode.INVALID_REQUEST,
        message=f"The request's body is larger than {BODY_LIMIT_BYTES} bytes.",
        hint="Send less: weights go to presigned URLs, tokens never leave the session.",
    )
    body = ErrorBody(error=detail, request_id=request_id).model_dump_json().encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
