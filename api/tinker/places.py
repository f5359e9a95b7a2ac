"""Where a request belongs: the id in it names our session, and the session its project."""

import logging
import time
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.utils import timezone

from api.rest.authentication import KeyCaller
from console.errors import NotFound
from console.sessions.models import Session
from console.tinker.models import TinkerModel, TinkerSampler
from console.tinker.told import model_told, sampler_told
from console.users.keys import key_session_check
from tinkerscript.wire.tinker.ids import PROMISE_ID, SAMPLER_ID

MAX_KNOWN = 50_000
USED_EVERY_S = 60.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """What never changes of a session. ``started_by``: an API key's id; None for a person, or a key that is gone."""

    project_id: str
    base_model: str
    started_by: str | None


class Places:
    """What never changes of sessions and models, kept in this process: a busy client waits for no query."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}  # of sessions
        self._models: dict[str, str] = {}  # the session of each model
        self._seen: dict[str, float] = {}  # when a model's last request was written down

    async def of_model(self, caller: KeyCaller, model_id: str) -> str:
        """The session of a model. Raises NotFound, for another project's as for none; Forbidden as ``_check``."""
        session_id = self._models.get(model_id)
        if session_id is None:
            session_id = await database_sync_to_async(_model_session)(model_id)
            if len(self._models) >= MAX_KNOWN:
                self._models.clear()
            self._models[model_id] = session_id
        await self._check(caller, session_id, f"There is no model {model_id}.")
        return session_id

    async def model_used(self, model_id: str) -> None:
        """It has a request now; written down at most once a minute."""
        now = time.monotonic()
        if now - self._seen.get(model_id, -USED_EVERY_S) < USED_EVERY_S:
            return
        if len(self._seen) >= MAX_KNOWN:
            self._seen.clear()
        self._seen[model_id] = now
        await database_sync_to_async(_used)(model_id)

    async def of_sampler(self, caller: KeyCaller, sampler_id: str) -> str:
        """The session of a sampling session. Raises NotFound, Forbidden."""
        parts = SAMPLER_ID.fullmatch(sampler_id)
        await self._check(caller, parts["session_id"] if parts else "", "There is no such sampling session.")
        assert parts is not None, "without a form there is no session"
        return parts["session_id"]

    async def of_promise(self, caller: KeyCaller, request_id: str) -> str:
        """The session of a promise. Raises NotFound, Forbidden."""
        parts = PROMISE_ID.fullmatch(request_id)
        await self._check(caller, parts["session_id"] if parts else "", "There is no such request.")
        assert parts is not None, "without a form there is no session"
        return parts["session_id"]

    async def _check(self, caller: KeyCaller, session_id: str, otherwise: str) -> None:
        """Raises NotFound; Forbidden where the key's models or spend cap leave the session out."""
        place = self._places.get(session_id)
        if place is None and session_id:
            place = await database_sync_to_async(_session_place)(session_id)
            if len(self._places) >= MAX_KNOWN:
                self._places.clear()
            if place is not None:
                self._places[session_id] = place
        if place is None or place.project_id != caller.project.id:
            raise NotFound(otherwise)
        key_session_check(key=caller.key, base_model=place.base_model, started_by=place.started_by)


class Told:
    """Which models and samplers a runtime was told of by this process: each is told before its first request.

    It is told again at another address: a runtime that was started anew may have lost its volume. Of a model that an
    earlier one has written in its journal it is told that too: it must not begin anew with the base's weights.
    """

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()  # names, and addresses of runtimes

    async def wanted(self, name: str, address: str) -> tuple[str, Any] | None:
        """The path and body with which to tell the runtime of ``name``; None where it knows."""
        if (name, address) in self._told:
            return None
        return await database_sync_to_async(_telling)(name)

    async def done(self, name: str, address: str) -> None:
        """The runtime knows."""
        await database_sync_to_async(_made)(name)
        if len(self._told) >= MAX_KNOWN:
            self._told.clear()
        self._told.add((name, address))


def model_of_promise(request_id: str) -> str | None:
    """The model whose making is promised by ``{session}|train:{number}:0``."""
    session_id, _, rest = request_id.partition("|")
    kind, _, numbers = rest.partition(":")
    number, _, seq_id = numbers.partition(":")
    if kind != "train" or seq_id != "0" or not number.isdecimal():
        return None
    return TinkerModel.objects.filter(session_id=session_id, number=int(number)).values_list("id", flat=True).first()


def _model_session(model_id: str) -> str:
    found = TinkerModel.objects.filter(id=model_id).values_list("session_id", flat=True).first()
    if found is None:
        raise NotFound(f"There is no model {model_id}.")
    return found


def _used(model_id: str) -> None:
    try:
        TinkerModel.objects.filter(id=model_id).update(last_request_at=timezone.now())
    except DatabaseError as error:  # a full disk, for one: training needs no table
        log.warning("the time of a request for %s is not written down: %s", model_id, error)


def _session_place(session_id: str) -> Place | None:
    row = Session.objects.filter(id=session_id).values_list("project_id", "base_model", "key_id").first()
    return None if row is None else Place(*row)


def _made(name: str) -> None:
    TinkerModel.objects.filter(id=name, is_made=False).update(is_made=True)


def _telling(name: str) -> tuple[str, Any] | None:
    if ":train:" in name:
        return "/tinker/models", model_told(TinkerModel.objects.get(id=name))
    sampler = TinkerSampler.objects.filter(id=name).first()
    return None if sampler is None else ("/tinker/samplers", sampler_told(sampler))


places, told = Places(), Told()
