"""Requests that a runtime serves: their ids are found in the bytes, the bytes are passed on as they came."""

from functools import partial

import aiohttp
from channels.db import database_sync_to_async

from api.forward import POLICIES, GatewayRequest, NotReady, forward, send
from api.relay.errors import RelayError, error_for_state
from api.relay.routes import routes
from api.rest.authentication import KeyCaller
from api.rest.parsing import NUL, NUL_PROBLEM
from api.tinker.answers import Answer
from api.tinker.numbers import refusal_write
from api.tinker.places import model_of_promise, places, told
from api.tinker.refusals import refused, samples_wanted
from console.errors import InvalidRequest, NotFound
from console.sessions.limits.queue import queue_position
from console.sessions.models import Session
from console.sessions.selectors import Route
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.tinker.ids import field_find, training_head, user_error

HEADERS_PASSED = (b"content-type", b"x-request-id")
REFUSAL = "refusal"  # in place of a call's name: an operation that was refused here, told to its runtime
PATHS = {REFUSAL: "/tinker/refusals"}


async def relay(caller: KeyCaller, kind: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> Answer:
    """The runtime's answer. Raises DomainError."""
    session_id, name = await _place(caller, kind, body)
    passed = {name.decode(): value.decode("latin-1") for name, value in headers if name in HEADERS_PASSED}
    prepare = None if name is None else partial(runtime_tell, name)
    request = GatewayRequest("POST", PATHS.get(kind, f"/api/v1/{kind}"), passed, body, prepare=prepare)
    try:
        return await forward(partial(_route, session_id), request, POLICIES.get(kind, POLICIES["tinker"]), _answer)
    except Ended as end:
        return _ended(kind, body, end)
    except NotReady:
        return await _not_ready(kind, session_id)


class Ended(Exception):
    """The session serves no more. A request to one that did not fail is its user's mistake."""

    def __init__(self, message: str, *, has_failed: bool = False) -> None:
        super().__init__(message)
        self.message, self.has_failed = message, has_failed


async def _route(session_id: str) -> Route:
    try:
        route = await routes.get(session_id)
    except RelayError:
        raise Ended("The session of this request was deleted.") from None
    if error := error_for_state(route):
        raise Ended(error.message, has_failed=route.state is SessionState.FAILED)
    return route


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    kind = response.headers.get("Content-Type", "application/json")
    retry_after = response.headers.get("Retry-After")
    async with response:
        return Answer(response.status, await response.read(), kind, int(retry_after) if retry_after else None)


async def relay_refusal(caller: KeyCaller, model_id: str, seq_id: int, why: str) -> Answer | None:
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
    request = GatewayRequest("POST", path, {}, message.model_dump_json().encode())
    async with await send(route, request, POLICIES["tinker"]) as response:
        if response.status == 200:
            await told.done(name, route.address)


async def _place(caller: KeyCaller, kind: str, body: bytes) -> tuple[str, str | None]:
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


def _ended(kind: str, body: bytes, end: Ended) -> Answer:
    if kind == "retrieve_future":
        return Answer.of(user_error(end.message, "server" if end.has_failed else "user"))
    if end.has_failed or kind in ("retrieve_futures", "cancel_future"):
        return Answer.of({"detail": end.message}, 400)
    return refused(end.message, samples=samples_wanted(body) if kind == "asample" else 0)


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
