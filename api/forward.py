"""Episode calls: found to be the caller's here, answered by the gateway of the session's runtime, passed on as is."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from pydantic import BaseModel

from api.idempotency import idempotency_key_of
from api.upstream import CONNECT_TIMEOUT_S, CONNECTION_ERRORS, client
from console.errors import Conflict, NotFound, SessionFailed, SessionNotReady
from console.logs import refusal_expect
from console.request_id import request_id_of
from console.sessions.leases import relay_key
from console.sessions.models import Session
from console.sessions.queue import queue_position
from console.sessions.selectors import session_get
from console.sessions.services import session_wake
from console.users.keys import key_model_check
from tinkerscript.wire.sessions import SessionState

READY_TIMEOUT_S = 20.0
# A gateway holds a begin for up to 20 s (strict on-policy admission) before it says 503.
ANSWER_TIMEOUT_S = 30.0
LOOK_AGAIN_S = 0.25
PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
PASSED_ON = ("Content-Type", "Retry-After")

logger = logging.getLogger(__name__)


async def forward(
    request: HttpRequest, session_id: str, *path: str, body: BaseModel | None = None, stream: bool = False
) -> HttpResponseBase:
    """The gateway's answer to ``path`` (its parts), as it is; ``stream`` passes on a large one piece by piece.

    A session that is on its way up, or whose runtime is being restarted, is waited for. Raises NotFound,
    SessionFailed, Conflict when it has ended, SessionNotReady when the wait was too short: ask again.
    """
    idempotency_key_of(request)  # refused here as everywhere when malformed; the gateway acts on it
    if not all(PLAIN.fullmatch(part) for part in path):  # what an id is not, such as "..", must not steer the URL
        raise NotFound("There is no such episode in this session.")
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        session = await sync_to_async(_session_for)(request, session_id)
        if session.state == SessionState.READY and session.address:
            try:
                ask = _ask_for_stream if stream else _ask
                return await ask(request, session, "/".join(path), body)
            except CONNECTION_ERRORS as error:  # the runtime is going or gone: its row says so soon
                logger.warning("%s did not answer: %r", session.address, error, extra={"session_id": session_id})
        if time.monotonic() >= deadline:
            raise await sync_to_async(_not_ready)(session)
        await asyncio.sleep(LOOK_AGAIN_S)


def _session_for(request: HttpRequest, session_id: str) -> Session:
    session = session_get(project=request.auth.project, session_id=session_id)
    if request.method != "GET":
        key_model_check(key=request.auth.key, base_model=session.base_model)
    state = SessionState(session.state)
    if state is SessionState.FAILED:
        raise SessionFailed(
            f"The session has failed: {session.failure['cause']}",
            hint=session.failure.get("hint") or "Start a new session.",
            details=session.failure,
        )
    if state.is_terminal or state is SessionState.STOPPING:
        raise Conflict(
            f"The session is {state}: it takes no more episodes.",
            hint="Start a new session; committed checkpoints of this one can still be downloaded.",
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


async def _ask(request: HttpRequest, session: Session, path: str, body: BaseModel | None) -> HttpResponseBase:
    limit = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
    async with _sent(request, session, path, body, limit) as answer:
        if answer.status == 503 and "Retry-After" in answer.headers:  # the gateway is full, or held it long enough
            refusal_expect(request)
        return _with_headers(HttpResponse(await answer.read(), status=answer.status), answer)


async def _ask_for_stream(
    request: HttpRequest, session: Session, path: str, body: BaseModel | None
) -> HttpResponseBase:
    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=ANSWER_TIMEOUT_S)
    answer = await _sent(request, session, path, body, limit)

    async def pieces() -> AsyncIterator[bytes]:
        # An error from here on breaks the connection: a client must not take half an answer for a whole one.
        async with answer:
            async for piece in answer.content.iter_any():
                yield piece

    return _with_headers(StreamingHttpResponse(pieces(), status=answer.status), answer)


def _sent(
    request: HttpRequest, session: Session, path: str, body: BaseModel | None, limit: aiohttp.ClientTimeout
) -> Any:
    """aiohttp's request, to be awaited or entered."""
    headers = {"X-Relay-Key": relay_key(session_id=session.id), "X-Request-Id": request_id_of(request)}
    if request.auth.key:
        headers["X-Key-Id"] = request.auth.key.id  # what is begun with a key ends with it
    if key := request.headers.get("Idempotency-Key"):
        headers["Idempotency-Key"] = key
    if body is not None:
        headers["Content-Type"] = "application/json"
    return client().request(
        request.method,
        f"http://{session.address}/{path}",
        params=request.GET.dict(),
        data=body.model_dump_json() if body is not None else None,
        headers=headers,
        timeout=limit,
        allow_redirects=False,
    )


def _with_headers(response: HttpResponseBase, answer: aiohttp.ClientResponse) -> HttpResponseBase:
    del response["Content-Type"]
    for name in PASSED_ON:
        if name in answer.headers:
            response[name] = answer.headers[name]
    return response


def _not_ready(session: Session) -> SessionNotReady:
    return SessionNotReady(
        f"The session is {session.state}{': ' if session.phase else ''}{session.phase}.",
        hint="Ask again in a moment.",
        details={"state": session.state, "queue_position": queue_position(session=session)},
    )
