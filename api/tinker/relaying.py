"""Requests that a runtime serves: their ids are found in the bytes, the bytes are passed on as they
came.
"""

import json
from functools import partial

import aiohttp
from channels.db import database_sync_to_async

from api.forward import POLICIES, GatewayRequest, NotReady, forward, route_served, send
from api.relay.errors import RelayError
from api.rest.authentication import KeyCaller
from api.tinker.answers import Answer, refused
from api.tinker.operations import Operation, operation_read
from api.tinker.places import places
from console.errors import NotFound
from console.sessions.limits.queue import queue_position
from console.sessions.models import Session
from console.sessions.selectors import Route
from console.tinker.models import TinkerModel, TinkerSampler, TinkerSession
from console.tinker.runtimes import model_message, sampler_message
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.tinker.ids import ModelId, PromiseId, SamplerId, user_error
from tinkerscript.wire.tinker.messages import ModelCreate, SamplerCreate

OVER = "This session is finished. Make another ServiceClient."
HEADERS_PASSED = (b"content-type", b"x-request-id")


async def relay(
    caller: KeyCaller, kind: str, body: bytes, headers: list[tuple[bytes, bytes]]
) -> Answer:
    """The runtime's answer. Raises DomainError."""
    passed = {
        name.decode(): value.decode("latin-1") for name, value in headers if name in HEADERS_PASSED
    }
    return await _forward(caller, operation_read(kind, body), f"/api/v1/{kind}", body, passed)


async def relay_refusal(caller: KeyCaller, operation: Operation, why: str) -> Answer | None:
    """The promise of an operation that is refused here, whose number its runtime uses up; None
    where there is no such model, and from a runtime of a version that cannot. Raises DomainError.
    """
    body = json.dumps(
        {"model_id": str(operation.of), "seq_id": operation.seq_id, "message": why}
    ).encode()
    try:
        answer = await _forward(caller, operation, "/tinker/refusals", body, {})
    except NotFound:
        return None
    return None if answer.status == 404 else answer


async def _forward(
    caller: KeyCaller, operation: Operation, path: str, body: bytes, headers: dict[str, str]
) -> Answer:
    session_id = await places.session_of(caller, operation)
    before = await places.announced_first(operation)
    prepare = None if before is None else partial(runtime_announce, before)
    request = GatewayRequest("POST", path, headers, body, prepare=prepare)
    policy = POLICIES.get(operation.kind, POLICIES["tinker"])
    try:
        answer = await forward(partial(route_served, session_id), request, policy, _answer)
        if answer.status == 404 and await database_sync_to_async(_client_is_over)(operation.of):
            return refused(OVER, samples=operation.samples)
        return answer
    except RelayError as end:
        return _ended(operation, end)
    except NotReady:
        return await _not_ready(operation.kind, session_id)


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    kind = response.headers.get("Content-Type", "application/json")
    retry_after = response.headers.get("Retry-After")
    async with response:
        return Answer(
            response.status, await response.read(), kind, int(retry_after) if retry_after else None
        )


async def runtime_announce(of: ModelId | SamplerId, route: Route) -> None:
    """Have the runtime of ``route`` know a model or a sampler before its first request. Raises
    CONNECTION_ERRORS.

    This process announces each once, and again at another address: a runtime that was started again
    may have lost its volume. The message of a model that an earlier runtime has in its journal
    states so: the model must not begin with the base's weights.
    """
    if (
        places.is_announced(of, route.address)
        or (announcement := await database_sync_to_async(_announcement)(of)) is None
    ):
        return
    path, message = announcement
    request = GatewayRequest("POST", path, {}, message.model_dump_json().encode())
    async with await send(route, request, POLICIES["tinker"]) as response:
        if response.status == 200:
            await places.announced(of, route.address)


def _announcement(of: ModelId | SamplerId) -> tuple[str, ModelCreate | SamplerCreate] | None:
    if isinstance(of, ModelId):
        if _client_is_over(of):
            return None
        return "/tinker/models", model_message(TinkerModel.objects.get(id=str(of)))
    sampler = TinkerSampler.objects.filter(id=str(of)).first()
    return (
        None
        if sampler is None or _client_is_over(of)
        else ("/tinker/samplers", sampler_message(sampler))
    )


def _client_is_over(of: ModelId | SamplerId | PromiseId) -> bool:
    """Whether its client is finished: its runtime, which others share, has nothing of it then."""
    if isinstance(of, PromiseId):
        return False
    over = TinkerSession.objects.filter(id=of.tinker_session, finished__isnull=False)
    return over.exists()


def _ended(operation: Operation, end: RelayError) -> Answer:
    """A request to a session that is over and did not fail is its user's mistake."""
    has_failed = end.code == "session_failed"
    if operation.kind == "retrieve_future":
        return Answer.of(user_error(end.message, "server" if has_failed else "user"))
    if has_failed or operation.kind in ("retrieve_futures", "cancel_future"):
        return Answer.of({"detail": end.message}, 400)
    return refused(end.message, samples=operation.samples)


async def _not_ready(kind: str, session_id: str) -> Answer:
    reason, waits = await database_sync_to_async(_reason)(session_id)
    if kind == "retrieve_future":
        return Answer.of({"queue_state": "paused_capacity", "queue_state_reason": reason}, 408)
    if kind == "asample":  # a client waits and sends it again, for as long as it takes
        return Answer.of({"detail": reason}, 429, retry_after_s=1)
    # the one status on which a client goes on for an hour; on 503 it gives up after five minutes
    if waits:
        return Answer.of(
            {
                "detail": f"Nothing is to be paid: {reason}. The request is sent again until it is "
                "up."
            },
            402,
        )
    return Answer.of({"detail": reason}, 503, retry_after_s=1)


def _reason(session_id: str) -> tuple[str, bool]:
    """What the session waits for, and whether it does: one that is ready is only not reached for a
    moment.
    """
    session = Session.objects.filter(id=session_id).first()
    if session is None:
        raise NotFound("There is no such session.")
    position = queue_position(session=session)
    waits = f", number {position} in the queue" if position else ""
    text = f"the runtime is {session.state}{waits}{': ' if session.phase else ''}{session.phase}"
    return text, session.state != SessionState.READY
