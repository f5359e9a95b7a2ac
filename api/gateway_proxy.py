"""Episode calls: checked to be the caller's here, then forwarded to the gateway of the session's runtime."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from pydantic import BaseModel

from api.gateway_client import CONNECT_TIMEOUT_S, CONNECTION_ERRORS, client
from api.rest.idempotency import idempotency_key_of
from api.rest.requests import ApiRequest
from console.errors import Conflict, NotFound, SessionFailed, SessionNotReady
from console.server.logs import refusal_expect
from console.server.request_id import request_id_of
from console.sessions.limits.queue import queue_position
from console.sessions.models import Session
from console.sessions.runtime.gateway_keys import relay_key
from console.sessions.selectors import session_get
from console.sessions.services import session_wake
from tinkerscript.processes.tracing import span, trace_headers
from tinkerscript.wire.sessions import SessionKind, SessionState

READY_TIMEOUT_S = 20.0
# A gateway holds a begin for up to 20 s (strict on-policy admission) before it returns 503.
ANSWER_TIMEOUT_S = 30.0
# Between two looks at a session on its way up, which takes seconds. What wakes those who follow its record
# (console/live) would save half of this on average; a wake-up may be lost, so the looks would stay, and each is one row
# by its key.
POLL_INTERVAL_S = 0.25
ADDRESS_INTERVAL_S = 0.05  # of one that serves already: the reconciler was woken to find its address
ID_FORM = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESPONSE_HEADERS_KEPT = ("Content-Type", "Retry-After")

logger = logging.getLogger(__name__)


async def forward(
    request: ApiRequest,
    session_id: str,
    *path: str,
    body: BaseModel | None = None,
    stream: bool = False,
    query: dict[str, str] | None = None,
) -> HttpResponseBase:
    """The gateway's response to ``path`` (its parts), unchanged; ``stream`` copies a large one chunk by chunk.

    ``query`` is what the gateway is asked with, if not what the client asked with.

    A session that is on its way up, or whose runtime is being restarted, is waited for. Raises NotFound,
    SessionFailed, Conflict when it has ended, SessionNotReady when the wait was too short: ask again.
    """
    idempotency_key_of(request)  # refused here as everywhere when malformed; the gateway acts on it
    if not all(ID_FORM.fullmatch(part) for part in path):  # what an id is not, such as "..", must not steer the URL
        raise NotFound("There is no such episode in this session.")
    with span("forward", lambda: request.headers, path="/".join(path), session_id=session_id):
        return await _forward(request, session_id, "/".join(path), body, stream, query)


async def _forward(
    request: ApiRequest, session_id: str, path: str, body: BaseModel | None, stream: bool, query: dict[str, str] | None
) -> HttpResponseBase:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        fault: Exception | None = None
        session = await sync_to_async(_session_for)(request, session_id)
        if session.state == SessionState.READY and session.address:
            try:
                request_once = _request_stream if stream else _request
                asked = request.query_params.dict() if query is None else query
                return await request_once(request, session, path, body, asked)
            except CONNECTION_ERRORS as error:
                fault = error  # it is going or gone, which its row shows soon, or has much to do
                logger.warning("%s did not answer: %r", session.address, error, extra={"session_id": session_id})
        if time.monotonic() >= deadline:
            raise await sync_to_async(_not_ready)(session, fault)
        serves = session.state == SessionState.READY and not session.address
        await asyncio.sleep(ADDRESS_INTERVAL_S if serves else POLL_INTERVAL_S)


def _session_for(request: ApiRequest, session_id: str) -> Session:
    session = session_get(project=request.auth.project, session_id=session_id)
    state = SessionState(session.state)
    if state is SessionState.FAILED:
        failure = session.failure or {"cause": "unknown"}
        raise SessionFailed(
            f"The session has failed: {failure['cause']}",
            hint=failure.get("hint") or "Start a new session.",
            details=failure,
        )
    if session.kind == SessionKind.SERVING:
        raise Conflict(
            "This session serves a model: it has no episodes.",
            hint="Call it with a key of POST /v1/sessions/{id}/serving-keys; begin episodes in a session that trains.",
        )
    if state.is_terminal or state is SessionState.STOPPING:
        raise Conflict(
            f"The session is {state}: it takes no more episodes.",
            hint="Start a new session from one of its committed checkpoints: give its id as base_model.",
            details={"state": state},
        )
    if request.method == "GET":
        if state is SessionState.SUSPENDED:
            raise Conflict(
                "The session is suspended.",
                hint="Begin an episode to wake it: reading alone does not.",
                details={"state": state},
            )
        return session
    return session_wake(session=session)


async def _request(
    request: ApiRequest, session: Session, path: str, body: BaseModel | None, query: dict[str, str]
) -> HttpResponseBase:
    limit = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
    async with _open(request, session, path, body, query, limit) as upstream:
        if upstream.status == 503 and "Retry-After" in upstream.headers:  # the gateway is full, or held it long enough
            refusal_expect(request.http)
        return _with_headers(HttpResponse(await upstream.read(), status=upstream.status), upstream)


async def _request_stream(
    request: ApiRequest, session: Session, path: str, body: BaseModel | None, query: dict[str, str]
) -> HttpResponseBase:
    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=ANSWER_TIMEOUT_S)
    upstream = await _open(request, session, path, body, query, limit)

    async def pieces() -> AsyncIterator[bytes]:
        # An error from here on breaks the connection: a client must not take half a response for a whole one.
        async with upstream:
            async for piece in upstream.content.iter_any():
                yield piece

    return _with_headers(StreamingHttpResponse(pieces(), status=upstream.status), upstream)


def _open(
    request: ApiRequest,
    session: Session,
    path: str,
    body: BaseModel | None,
    query: dict[str, str],
    limit: aiohttp.ClientTimeout,
) -> Any:
    """aiohttp's request, to be awaited or entered."""
    key = relay_key(session_id=session.id, lease_sha256=session.lease_sha256)
    headers = {"X-Relay-Key": key, "X-Request-Id": request_id_of(request.http)}
    # What is begun with a key, or by a member, ends with it.
    headers["X-Key-Id"] = request.auth.id
    if once := request.headers.get("Idempotency-Key"):
        headers["Idempotency-Key"] = once
    headers |= trace_headers()
    if body is not None:
        headers["Content-Type"] = "application/json"
    return client().request(
        request.method or "GET",
        f"http://{session.address}/{path}",
        params=query,
        data=body.model_dump_json() if body is not None else None,
        headers=headers,
        timeout=limit,
        allow_redirects=False,
    )


def _with_headers(response: HttpResponseBase, upstream: aiohttp.ClientResponse) -> HttpResponseBase:
    del response["Content-Type"]
    for name in RESPONSE_HEADERS_KEPT:
        if name in upstream.headers:
            response[name] = upstream.headers[name]
    return response


def _not_ready(session: Session, fault: Exception | None) -> SessionNotReady:
    """``fault`` is that of the last request to its runtime, if there was one."""
    message = f"The session is {session.state}{': ' if session.phase else ''}{session.phase}."
    hint = "Ask again in a moment."
    if isinstance(fault, TimeoutError) and not isinstance(fault, aiohttp.ClientError):  # it was reached
        message = f"The session's runtime has not answered within {ANSWER_TIMEOUT_S:.0f} s."
        hint = "It may still do what it was asked. Ask again in a moment."
    details = {"state": session.state, "queue_position": queue_position(session=session)}
    return SessionNotReady(message, hint=hint, details=details)
