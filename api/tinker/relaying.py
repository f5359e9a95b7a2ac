"""Requests that a runtime serves: where each belongs, what its runtime has to know before it, and
its bytes, which are passed on as they came.

The id in a request names our session, and the session its project.
"""

import json
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import aiohttp
from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.utils import timezone

from api.forward import POLICIES, GatewayRequest, NotReady, forward, route_served, send
from api.relay.errors import RelayError
from api.rest.authentication import KeyCaller
from api.tinker.answers import Answer, refused
from api.tinker.operations import Operation
from console.errors import NotFound
from console.sessions.limits.queue import queue_position
from console.sessions.models import Session
from console.sessions.selectors import Route
from console.tinker.models import TinkerModel, TinkerSampler, TinkerSession
from console.tinker.runtimes import model_message, sampler_message
from console.users.keys import key_session_check
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.tinker.ids import ModelId, PromiseId, SamplerId, user_error
from tinkerscript.wire.tinker.messages import ModelCreate, SamplerCreate

OVER = "This session is finished. Make another ServiceClient."
HEADERS_PASSED = (b"content-type", b"x-request-id")
MAX_KNOWN = 50_000
USED_EVERY_S = 60.0  # how often the time of a model's last request is written down, at most
log = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Place:
    """What never changes of a model or a session. ``started_by``: an API key's id; None for a
    person, or a key that is gone.
    """

    session_id: str
    project_id: str
    base_model: str
    started_by: str | None


class Known(dict[K, V]):
    """What is kept in this process, so that a busy client waits for no query; emptied when it is
    full.
    """

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= MAX_KNOWN and key not in self:
            self.clear()
        super().__setitem__(key, value)


_places: Known[ModelId | str, Place] = Known()  # of models, and of sessions by their ids
_used_at: Known[ModelId, float] = Known()
_announced: Known[tuple[ModelId | SamplerId, str], bool] = Known()  # with addresses of runtimes


async def relay(
    caller: KeyCaller,
    operation: Operation,
    url_path: str,
    body: bytes,
    headers: list[tuple[bytes, bytes]],
) -> Answer:
    """The answer of the operation's runtime. Raises DomainError."""
    of, session_id = operation.of, await _session_of(caller, operation)
    if (
        isinstance(of, ModelId)
        and time.monotonic() - _used_at.get(of, -USED_EVERY_S) >= USED_EVERY_S
    ):
        _used_at[of] = time.monotonic()
        await database_sync_to_async(_used)(of)
    first = of.made_model if isinstance(of, PromiseId) else of
    prepare = None if first is None else partial(runtime_announce, first)
    passed = {
        name.decode(): value.decode("latin-1") for name, value in headers if name in HEADERS_PASSED
    }
    request = GatewayRequest("POST", url_path, passed, body, prepare=prepare)
    policy = POLICIES.get(operation.kind, POLICIES["tinker"])
    try:
        answer = await forward(partial(route_served, session_id), request, policy, _answer)
        if answer.status == 404 and await database_sync_to_async(_client_is_over)(of):
            return refused(OVER, samples=operation.samples)
        return answer
    except RelayError as end:
        return _ended(operation, end)
    except NotReady:
        return await _not_ready(operation.kind, session_id)


async def relay_refusal(caller: KeyCaller, operation: Operation, why: str) -> Answer | None:
    """The promise of an operation that is refused here, whose number its runtime uses up; None
    where there is no such model, and from a runtime of a version that cannot. Raises DomainError.
    """
    body = json.dumps(
        {"model_id": str(operation.of), "seq_id": operation.seq_id, "message": why}
    ).encode()
    try:
        answer = await relay(caller, operation, "/tinker/refusals", body, [])
    except NotFound:
        return None
    return None if answer.status == 404 else answer


async def _session_of(caller: KeyCaller, operation: Operation) -> str:
    """The id of its session. Raises NotFound, for another project's as for none; Forbidden where
    the key's models or spend cap leave the session out.
    """
    of = operation.of if isinstance(operation.of, ModelId) else operation.of.session_id
    place = _places.get(of)
    if place is None and (place := await database_sync_to_async(_place)(of)) is not None:
        _places[of] = place
    if place is None or place.project_id != caller.project.id:
        raise operation.missing
    key_session_check(key=caller.key, base_model=place.base_model, started_by=place.started_by)
    return place.session_id


def _place(of: ModelId | str) -> Place | None:
    if isinstance(of, ModelId):
        model = TinkerModel.objects.filter(id=str(of)).select_related("session").first()
        found = model.session if model else None
    else:
        found = Session.objects.filter(id=of).first()
    if found is None:
        return None
    return Place(found.id, found.project_id, found.base_model, found.key_id)


def _used(model_id: ModelId) -> None:
    try:
        TinkerModel.objects.filter(id=str(model_id)).update(last_request_at=timezone.now())
    except DatabaseError as error:  # a full disk, for one: training needs no table
        log.warning("the time of a request for %s is not written down: %s", model_id, error)


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
    if (of, route.address) in _announced:
        return
    if (announcement := await database_sync_to_async(_announcement)(of)) is None:
        return
    path, message = announcement
    request = GatewayRequest("POST", path, {}, message.model_dump_json().encode())
    async with await send(route, request, POLICIES["tinker"]) as response:
        if response.status != 200:
            return
    if isinstance(of, ModelId):
        await database_sync_to_async(_made)(of)
    _announced[of, route.address] = True


def _announcement(of: ModelId | SamplerId) -> tuple[str, ModelCreate | SamplerCreate] | None:
    """The runtime's path and message; None where its client is over, and for the sampler of an
    unnamed save, which the runtime has.
    """
    if _client_is_over(of):
        return None
    if isinstance(of, ModelId):
        return "/tinker/models", model_message(TinkerModel.objects.get(id=str(of)))
    sampler = TinkerSampler.objects.filter(id=str(of)).first()
    return None if sampler is None else ("/tinker/samplers", sampler_message(sampler))


def _made(model_id: ModelId) -> None:
    TinkerModel.objects.filter(id=str(model_id), is_made=False).update(is_made=True)


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
