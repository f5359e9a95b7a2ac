"""Where a request belongs: the id in it names our session, and the session its project."""

import logging
import time
from dataclasses import dataclass

from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.utils import timezone

from api.rest.authentication import KeyCaller
from api.tinker.operations import Operation
from console.errors import NotFound
from console.sessions.models import Session
from console.tinker.models import TinkerModel
from console.users.keys import key_session_check
from tinkerscript.wire.tinker.ids import ModelId, PromiseId, SamplerId

MAX_KNOWN = 50_000
USED_EVERY_S = 60.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """What never changes of a session. ``started_by``: an API key's id; None for a person, or a key
    that is gone.
    """

    project_id: str
    base_model: str
    started_by: str | None


class Places:
    """What never changes of sessions and models, kept in this process: a busy client waits for no
    query.
    """

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}  # of sessions
        self._models: dict[ModelId, str] = {}  # the session of each model
        self._seen: dict[ModelId, float] = {}  # when a model's last request was written down
        self._announced: set[tuple[ModelId | SamplerId, str]] = set()  # with addresses of runtimes

    async def session_of(self, caller: KeyCaller, operation: Operation) -> str:
        """The id of its session. Raises NotFound, for another project's as for none; Forbidden as
        ``_check``.
        """
        if isinstance(operation.of, ModelId):
            session_id = self._models.get(operation.of)
            if session_id is None:
                session_id = await database_sync_to_async(_model_session)(operation)
                if len(self._models) >= MAX_KNOWN:
                    self._models.clear()
                self._models[operation.of] = session_id
        else:
            session_id = operation.of.session_id
        await self._check(caller, session_id, operation.missing)
        return session_id

    async def announced_first(self, operation: Operation) -> ModelId | SamplerId | None:
        """What its runtime has to know before it gets the operation; a model has a request now."""
        if isinstance(operation.of, ModelId):
            await self._used(operation.of)
        if not isinstance(operation.of, PromiseId):
            return operation.of
        return operation.of.made_model

    async def _used(self, model_id: ModelId) -> None:
        """Written down at most once a minute."""
        now = time.monotonic()
        if now - self._seen.get(model_id, -USED_EVERY_S) < USED_EVERY_S:
            return
        if len(self._seen) >= MAX_KNOWN:
            self._seen.clear()
        self._seen[model_id] = now
        await database_sync_to_async(_used)(model_id)

    def is_announced(self, of: ModelId | SamplerId, address: str) -> bool:
        """Whether the runtime at ``address`` knows it."""
        return (of, address) in self._announced

    async def announced(self, of: ModelId | SamplerId, address: str) -> None:
        """The runtime knows it now."""
        if isinstance(of, ModelId):
            await database_sync_to_async(_made)(of)
        if len(self._announced) >= MAX_KNOWN:
            self._announced.clear()
        self._announced.add((of, address))

    async def _check(self, caller: KeyCaller, session_id: str, otherwise: NotFound) -> None:
        """Raises NotFound; Forbidden where the key's models or spend cap leave the session out."""
        place = self._places.get(session_id)
        if place is None:
            place = await database_sync_to_async(_session_place)(session_id)
            if len(self._places) >= MAX_KNOWN:
                self._places.clear()
            if place is not None:
                self._places[session_id] = place
        if place is None or place.project_id != caller.project.id:
            raise otherwise
        key_session_check(key=caller.key, base_model=place.base_model, started_by=place.started_by)


def _model_session(operation: Operation) -> str:
    found = (
        TinkerModel.objects.filter(id=str(operation.of))
        .values_list("session_id", flat=True)
        .first()
    )
    if found is None:
        raise operation.missing
    return found


def _used(model_id: ModelId) -> None:
    try:
        TinkerModel.objects.filter(id=str(model_id)).update(last_request_at=timezone.now())
    except DatabaseError as error:  # a full disk, for one: training needs no table
        log.warning("the time of a request for %s is not written down: %s", model_id, error)


def _session_place(session_id: str) -> Place | None:
    row = (
        Session.objects.filter(id=session_id)
        .values_list("project_id", "base_model", "key_id")
        .first()
    )
    return None if row is None else Place(*row)


def _made(model_id: ModelId) -> None:
    TinkerModel.objects.filter(id=str(model_id), is_made=False).update(is_made=True)


places = Places()
