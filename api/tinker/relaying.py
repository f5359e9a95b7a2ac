"""Requests that a runtime serves: their ids are found in the bytes, the bytes are passed on as they came."""

import asyncio
import time

import aiohttp
from channels.db import database_sync_to_async

from api.gateway_client import CONNECT_TIMEOUT_S, CONNECTION_ERRORS, client
from api.relay.errors import RelayError, error_for_state
from api.relay.routes import routes
from api.rest.parsing import NUL, NUL_PROBLEM
from api.tinker.answers import Answer
from api.tinker.callers import TinkerCaller
from api.tinker.numbers import refusal_write
from api.tinker.places import model_of_promise, places, told
from api.tinker.refusals import refused, samples_wanted
from console.errors import InvalidRequest, NotFound
from console.sessions.limits.queue import queue_position
from console.sessions.models import Session
from console.sessions.runtime.gateway_keys import relay_key
from console.sessions.selectors import Route
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.tinker.ids import field_find, training_head, user_error

# How long a request waits for a runtime that is on its way up; the client's own limits are 45 s and 60 s.
READY_S = {"retrieve_future": 20.0, "asample": 5.0}
READY_OTHERWISE_S, POLL_INTERVAL_S = 30.0, 0.1
ANSWER_S = 40.0
HEADERS_PASSED = (b"content-type", b"x-request-id")
REFUSAL = "refusal"  # in place of a call's name: an operation that was refused here, told to its runtime
PATHS = {REFUSAL: "/tinker/refusals"}
RELAYED = frozenset(
    {
        "forward_backward", "optim_step", "save_weights", "save_weights_for_sampler", "save_weights_external",
        "load_weights", "asample", "retrieve_future", "retrieve_futures", "cancel_future",
    }
)  # fmt: skip


async def relay(caller: TinkerCaller, kind: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> Answer:
    """The runtime's answer. Raises DomainError."""
    session_id, name = await _place(caller, kind, body)
    deadline = time.monotonic() + READY_S.get(kind, READY_OTHERWISE_S)
    while True:
        try:
            route = await routes.get(session_id)
        except RelayError:
            return _ended(kind, body, "The session of this request was deleted.")
        if error := error_for_state(route):
            return _ended(kind, body, error.message, has_failed=route.state is SessionState.FAILED)
        if route.state is SessionState.READY and route.address:
            try:
                if name is not None:
                    await runtime_tell(name, route)
                return await _send(route, PATHS.get(kind, f"/api/v1/{kind}"), body, headers)
            except CONNECTION_ERRORS:
                routes.drop(session_id)  # it is going, gone or on its way back: its row shows it soon
        if time.monotonic() >= deadline:
            return await _not_ready(kind, session_id)
        await asyncio.sleep(POLL_INTERVAL_S)


async def relay_refusal(caller: TinkerCaller, model_id: str, seq_id: int, why: str) -> Answer | None:
    """The promise of an operation that is refused here, whose number its runtime uses up; None where there is no such
    model, and from a runtime of a version that cannot. Raises DomainError."""
    try:
        answer = await relay(caller, REFUSAL, refusal_write(model_id, seq_id, why), [])
    except NotFound:
        return None
    return None if answer.status == 404 else answer


async def runtime_tell(name: str, route: Route) -> None:
    """Have the runtime of ``route`` know the model or the sampler ``name`` before its first
    request.

    Raises CONNECTION_ERRORS.
    """
    if (telling := await told.wanted(name, route.address)) is None:
        return
    path, message = telling
    answer = await _send(route, path, message.model_dump_json().encode(), [])
    if answer.status == 200:
        await told.done(name, route.address)


async def _place(caller: TinkerCaller, kind: str, body: bytes) -> tuple[str, str | None]:
    """The session that a request is for, and what its runtime has to know before. Raises NotFound."""
    if kind in ("retrieve_future", "cancel_future"):
        request_id = _field(body, "request_id")
        session_id = await places.of_promise(caller, request_id)
        return session_id, await database_sync_to_async(model_of_promise)(request_id) if request_id.endswith(
            ":0"
        ) else None
    if kind in ("asample", "retrieve_futures"):
        sampler_id = _field(body, "sampling_session_id")
        return await places.of_sampler(caller, sampler_id), sampler_id
    if kind == "forward_backward":
        head = training_head(body)
        if head is None:
            raise InvalidRequest("The body is no ForwardBackwardRequest in protobuf.")
        model_id = head[0]
    else:
        model_id = _field(body, "model_id")
    if NUL in model_id:
        raise InvalidRequest(f"model_id {NUL_PROBLEM}.")
    session_id = await places.of_model(caller, model_id)
    await places.model_used(model_id)
    return session_id, model_id


def _field(body: bytes, name: str) -> str:
    found = field_find(body, name)
    if found is None:
        raise InvalidRequest(f"The body is a JSON object with {name}.")
    return found


async def _send(route: Route, path: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> Answer:
    passed = {name.decode(): value.decode("latin-1") for name, value in headers if name in HEADERS_PASSED}
    async with client().post(
        f"http://{route.address}{path}",
        data=body,
        headers=passed | {"X-Relay-Key": relay_key(session_id=route.session_id, lease_sha256=route.lease_sha256)},
        timeout=aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_TIMEOUT_S),
        allow_redirects=False,
    ) as response:
        kind = response.headers.get("Content-Type", "application/json")
        retry_after = response.headers.get("Retry-After")
        return Answer(response.status, await response.read(), kind, int(retry_after) if retry_after else None)


def _ended(kind: str, body: bytes, message: str, *, has_failed: bool = False) -> Answer:
    """A session that its client finished is asked by mistake; one that failed is not its user's."""
    if kind == "retrieve_future":
        return Answer.of(user_error(message, "server" if has_failed else "user"))
    if has_failed or kind in ("retrieve_futures", "cancel_future"):
        return Answer.of({"detail": message}, 400)
    return refused(message, samples=samples_wanted(body) if kind == "asample" else 0)


async def _not_ready(kind: str, session_id: str) -> Answer:
    reason, waits = await database_sync_to_async(_reason)(session_id)
    if kind == "retrieve_future":
        return Answer.of({"queue_state": "paused_capacity", "queue_state_reason": reason}, 408)
    if kind == "asample":  # a client waits and sends it again, for as long as it takes
        return Answer.of({"detail": reason}, 429, retry_after_s=1)
    if waits:  # the one status on which a client goes on for an hour; on 503 it gives up after five minutes
        return Answer.of({"detail": f"Nothing is to be paid: {reason}. The request is sent again until it is up."}, 402)
    return Answer.of({"detail": reason}, 503, retry_after_s=1)


def _reason(session_id: str) -> tuple[str, bool]:
    """What the session waits for, and whether it does: one that is ready is only not reached for a moment."""
    session = Session.objects.filter(id=session_id).first()
    if session is None:
        raise NotFound("There is no such session.")
    position = queue_position(session=session)
    waits = f", number {position} in the queue" if position else ""
    text = f"the runtime is {session.state}{waits}{': ' if session.phase else ''}{session.phase}"
    return text, session.state != SessionState.READY
