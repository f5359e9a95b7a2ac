"""What the routes of every dialect share: reading a body, seeing that a client disconnected, and
the error bodies.
"""

import asyncio
import contextlib
import hmac
import re
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from gpu_runtime.gateway.bodies import places_of
from gpu_runtime.refusals import (
    BadKey,
    BadRequest,
    Compressed,
    GatewayError,
    PromptTooLong,
    TooLarge,
)
from tinkerscript.wire.dialects.error_bodies import Refusal
from tinkerscript.wire.dialects.table import ANTHROPIC, OPENAI, dialect_at, dialect_of
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail

PLACE = re.compile(r"(?<=[A-Za-z_])\.(\d+)(?!\w)")  # of an item of a list, in a path of names
MAX_BODY_BYTES = 16 * 2**20
T = TypeVar("T")


async def read_body(request: Request) -> bytes:
    """The whole body. Raises TooLarge before it has read more than 16 MiB, Compressed."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise Compressed(
            f"the body is compressed (Content-Encoding: {encoding[:80]}), and is not unpacked here",
            param="Content-Encoding",
        )
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise TooLarge(f"the body is larger than {MAX_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, cancelled (ClientDisconnect) when the client disconnects. Read the
    body first.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect()
        return await task
    finally:
        for each in (task, gone):
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError, GatewayError):
                await each


def episode_key(request: Request) -> str:
    """The episode key of a request, as OpenAI's clients send it or as Anthropic's do. Raises
    BadKey.
    """
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    key = bearer.strip() if scheme.lower() == "bearer" else ""
    key = key or request.headers.get("x-api-key", "").strip()
    if not key:
        raise BadKey(
            "no episode key: send it as Authorization: Bearer or X-Api-Key",
            openai_code="invalid_api_key",
        )
    return key


def check_relay_key(request: Request, relay_key: str) -> None:
    """Internal paths are for the control plane alone. Raises BadKey."""
    given = request.headers.get("x-relay-key", "")
    if not hmac.compare_digest(given.encode(), relay_key.encode()):
        raise BadKey(
            "wrong or missing X-Relay-Key", hint="Internal paths are for the control plane."
        )


def request_id(request: Request) -> str | None:
    """The caller's id of this request, the same when it is sent again."""
    return request.headers.get("x-request-id") or None


def parse_page(request: Request, *, limit: int, maximum: int) -> dict[str, Any]:
    """The ``cursor`` and ``limit`` of a request for one page. Raises BadRequest."""
    given = request.query_params.get("limit", str(limit))
    if not (
        given.isascii() and given.isdecimal() and len(given) < 9 and 1 <= int(given) <= maximum
    ):
        raise BadRequest(f"limit must be a number from 1 to {maximum}", param="limit")
    return {"cursor": request.query_params.get("cursor"), "limit": int(given)}


def sentences(request: Request, error: GatewayError) -> str:
    """What is wrong and what to do, with the paths of what the client sent."""
    return places_of(request).said(error.sentences)


def error_response(request: Request, error: GatewayError) -> JSONResponse:
    """The response to a request that is refused, in the dialect of its path; of any other path in
    the form of REST.
    """
    dialect = dialect_at(request.url.path)
    if dialect is None:
        body = _rest_body(request, error)
    else:
        body = dialect.error_body(WORDINGS.get(dialect, _worded)(request, error))
    headers = {"X-Request-Id": request_id(request) or ""}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return JSONResponse(body, status_code=error.status, headers=headers)


def error_event(request: Request, error: GatewayError) -> bytes:
    """The last event of a stream that failed, in the dialect of its path."""
    start = dialect_of(request.url.path).error_event
    return start + b"data: " + error_response(request, error).body + b"\n\n"


def _rest_body(request: Request, error: GatewayError) -> dict[str, Any]:
    details = error.details | ({"param": error.param} if error.param else {})
    detail = ErrorDetail(code=error.code, message=str(error), hint=error.hint, details=details)
    return ErrorBody(error=detail, request_id=request_id(request) or "").model_dump(mode="json")


def _worded(request: Request, error: GatewayError) -> Refusal:
    return Refusal(
        error.status,
        sentences(request, error),
        error.openai_code,
        error.param and places_of(request).own(error.param),
        error.openai_type,
        request_id(request),
        error.details,
    )


def _openai_worded(request: Request, error: GatewayError) -> Refusal:
    """The places of lists are in brackets."""
    plain = _worded(request, error)
    param = plain.param
    if param == "messages" and "/responses" in request.url.path:
        param = "input"  # all of it: a message has a place of its own
    return replace(
        plain,
        message=PLACE.sub(r"[\1]", plain.message),
        param=param and PLACE.sub(r"[\1]", param),
        # A request that is at fault in a way that has no code of its own has none there.
        code=None if error.openai_code == ErrorCode.INVALID_REQUEST else error.openai_code,
    )


def _anthropic_worded(request: Request, error: GatewayError) -> Refusal:
    """A prompt that is too long is refused in the words that clients look for, and then shorten the
    conversation.
    """
    plain = _worded(request, error)
    if not isinstance(error, PromptTooLong):
        return plain
    said = f"prompt is too long: {error.tokens} tokens > {error.maximum} maximum. {error.hint}"
    return replace(plain, message=said)


# Of a dialect whose clients read more of an error than its fields.
WORDINGS = {OPENAI: _openai_worded, ANTHROPIC: _anthropic_worded}


def model_response(model: BaseModel, status: int = 200) -> Response:
    """A wire type as JSON."""
    return Response(model.model_dump_json(), status_code=status, media_type="application/json")


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
