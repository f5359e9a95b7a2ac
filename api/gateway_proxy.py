"""Episode calls: checked to be the caller's here, then forwarded to the gateway of the session's
runtime.
"""

import re
from collections.abc import AsyncIterator
from functools import partial
from urllib.parse import urlencode

import aiohttp
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from pydantic import BaseModel

from api.forward import POLICIES, GatewayRequest, NotReady, forward
from api.rest.authentication import Caller
from api.rest.idempotency import idempotency_key_of
from console.errors import Conflict, NotFound, SessionFailed, SessionNotReady
from console.server.logs import refusal_expect
from console.server.request_id import request_id_of
from console.sessions.limits.queue import queue_position
from console.sessions.models import Session
from console.sessions.selectors import Route, route_of, session_get
from console.sessions.services import session_wake
from tinkerscript.processes.tracing import span
from tinkerscript.wire.base import Changes
from tinkerscript.wire.sessions import SessionKind, SessionState

ID_FORM = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESPONSE_HEADERS_KEPT = ("Content-Type", "Retry-After")


async def gateway_response(
    caller: Caller,
    request: HttpRequest,
    session_id: str,
    *path: str,
    body: BaseModel | None = None,
    stream: bool = False,
    query: dict[str, str] | None = None,
) -> HttpResponseBase:
    """The gateway's response to ``path`` (its parts), unchanged; ``stream`` copies a large one
    chunk by chunk.

    ``query`` is what the gateway is asked with, if not what the client asked with.

    A session that is on its way up, or whose runtime is being restarted, is waited for. Raises
    NotFound, SessionFailed, Conflict when it has ended, SessionNotReady when the wait was too
    short: ask again.
    """
    idempotency_key_of(request)  # refused here as everywhere when malformed; the gateway acts on it
    # what an id is not, such as "..", must not steer the URL
    if not all(ID_FORM.fullmatch(part) for part in path):
        raise NotFound("There is no such episode in this session.")
    seen: list[Session] = []

    async def session() -> Route:
        seen[:] = [await sync_to_async(_session_for)(caller, request, session_id, path)]
        return route_of(seen[0])

    asked = urlencode(request.GET.dict() if query is None else query)
    url_path = f"/{'/'.join(path)}{'?' if asked else ''}{asked}"
    sent = GatewayRequest(
        request.method or "GET", url_path, _headers(caller, request, body), _json(body)
    )
    policy = POLICIES["rest stream" if stream else "rest"]
    with span("forward", lambda: request.headers, path="/".join(path), session_id=session_id):
        try:
            return await forward(
                session, sent, policy, _stream if stream else partial(_whole, request)
            )
        except NotReady as wait:
            raise await sync_to_async(_not_ready)(seen[0], wait.fault) from None


def _session_for(
    caller: Caller, request: HttpRequest, session_id: str, path: tuple[str, ...]
) -> Session:
    session = session_get(project=caller.project, session_id=session_id)
    state = SessionState(session.state)
    if state is SessionState.FAILED:
        failure = session.failure or {"cause": "unknown"}
        raise SessionFailed(
            f"The session has failed: {failure['cause']}",
            hint=failure.get("hint") or "Start a new session.",
            details=failure,
        )
    if path == ("config",) and session.kind == SessionKind.TINKER:
        raise Conflict(
            "A Tinker client gives the rate and the loss of each step itself.",
            hint="Pass another learning_rate in the AdamParams of the next optim_step.",
        )
    if session.kind == SessionKind.SERVING:
        raise Conflict(
            "This session serves a model: it has no episodes.",
            hint="Call it with a key of POST /v1/sessions/{id}/serving-keys; begin episodes in a "
            "session that trains.",
        )
    if state.is_terminal or state is SessionState.STOPPING:
        raise Conflict(
            f"The session is {state}: it takes no more episodes.",
            hint="Start a new session from one of its committed checkpoints: give its id as "
            "base_model.",
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


async def _whole(request: HttpRequest, upstream: aiohttp.ClientResponse) -> HttpResponseBase:
    # the gateway is full, or held it long enough
    if upstream.status == 503 and "Retry-After" in upstream.headers:
        refusal_expect(request)
    async with upstream:
        return _with_headers(HttpResponse(await upstream.read(), status=upstream.status), upstream)


async def _stream(upstream: aiohttp.ClientResponse) -> HttpResponseBase:
    async def pieces() -> AsyncIterator[bytes]:
        # An error from here on breaks the connection: a client must not take half a response for a
        # whole one.
        async with upstream:
            async for piece in upstream.content.iter_any():
                yield piece

    return _with_headers(StreamingHttpResponse(pieces(), status=upstream.status), upstream)


def _headers(caller: Caller, request: HttpRequest, body: BaseModel | None) -> dict[str, str]:
    # What is begun with a key, or by a member, ends with it.
    headers = {"X-Request-Id": request_id_of(request), "X-Key-Id": caller.id}
    if once := request.headers.get("Idempotency-Key"):
        headers["Idempotency-Key"] = once
    return headers if body is None else headers | {"Content-Type": "application/json"}


def _json(body: BaseModel | None) -> bytes:
    # of changes what was given alone: null would be another value
    only_set = isinstance(body, Changes)
    return b"" if body is None else body.model_dump_json(exclude_unset=only_set).encode()


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
    # it was reached
    if isinstance(fault, TimeoutError) and not isinstance(fault, aiohttp.ClientError):
        message = (
            f"The session's runtime has not answered within {POLICIES['rest'].answer_s:.0f} s."
        )
        hint = "It may still do what it was asked. Ask again in a moment."
    details = {"state": session.state, "queue_position": queue_position(session=session)}
    return SessionNotReady(message, hint=hint, details=details)
