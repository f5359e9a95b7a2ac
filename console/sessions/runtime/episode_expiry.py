"""Removing the episodes of sessions that ended long ago: what a database and a store otherwise keep
for ever.

    objects of the store -> files of this machine -> rows that name them -> rows of the episodes -> the session says so

In that order a removal that was cut off leaves rows, by which a later round finds the session
again, and no object without one. Checkpoints, metrics of steps and what was used stay: what was
learned is in no episode.
"""

import logging
import time
from datetime import timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from console.errors import SessionNotReady, StorageUnavailable
from console.live.services import event_note
from console.object_store import client as object_store
from console.sessions.episodes.models import EpisodeAnnotation, EpisodeTextBlock
from console.sessions.models import ArchivePart, EpisodePack, EpisodeRecord, Session
from console.sessions.runtime.episode_erasure import (
    FOLDERS,
    folder_prefix,
    local_copies_remove,
    uploads_drop,
)
from console.sessions.runtime.session_turn import Turn, session_turn
from console.sessions.states import ENDED
from console.sessions.tasks.models import QueuedTask

log = logging.getLogger(__name__)

# of each minute: other rows that expire wait meanwhile, and a process that ends waits for it
ROUND_S = 10.0
# rows of one statement, objects between two looks at the clock: writers wait no longer than for
# these
AT_ONCE = 1_000


class _RoundIsOver(Exception):
    """The rest is for the next round."""


def episodes_expire() -> None:
    """Remove the episodes of sessions that ended EPISODE_DAYS ago, the longest ended first, for at
    most a round.

    What the store does not take now is tried again in the next round.
    """
    if not settings.EPISODE_DAYS:
        return
    before = timezone.now() - timedelta(days=settings.EPISODE_DAYS)
    due = Session.objects.filter(
        episodes_removed_at=None,
        state__in=ENDED,
        state_since__lt=before,
        launch_handle__isnull=True,
    ).order_by("state_since")
    ends_at = time.monotonic() + ROUND_S
    try:
        for session in due.only("id", "accounting")[:AT_ONCE]:
            _session_expire(session, ends_at)
    except _RoundIsOver:
        pass
    except StorageUnavailable as away:
        log.warning("episodes of sessions that ended long ago are still to go: %s", away)


def _session_expire(session: Session, ends_at: float) -> None:
    try:
        with session_turn(session.id) as turn:
            _objects_remove(session, turn, ends_at)
            local_copies_remove(session)
            Session.objects.filter(id=session.id).update(journal=None, journal_bytes=0)
            for rows in _rows_of(session):
                _rows_remove(rows, turn, ends_at)
            Session.objects.filter(id=session.id).update(episodes_removed_at=timezone.now())
            if session.accounting:
                event_note(session.id, "episodes_removed", after_days=settings.EPISODE_DAYS)
    except SessionNotReady:
        log.info(
            "an episode of session %s is being erased; all of them go in a later round", session.id
        )


def _objects_remove(session: Session, turn: Turn, ends_at: float) -> None:
    # No runtime is there that could commit an upload; a row of one names objects that go.
    uploads_drop(session)
    for folder in FOLDERS:
        some: list[str] = []
        for key in object_store.keys_under(folder_prefix(session, folder)):
            some.append(key)
            if len(some) == AT_ONCE:
                _go_on(turn, ends_at)
                object_store.delete(some)
                some = []
        object_store.delete(some)
    _go_on(turn, ends_at)


def _rows_of(session: Session) -> tuple[QuerySet, ...]:
    """Packs after the episodes that name them."""
    return (
        ArchivePart.objects.filter(session=session),
        QueuedTask.objects.filter(session=session),
        EpisodeTextBlock.objects.filter(session=session),
        EpisodeAnnotation.objects.filter(session=session),
        EpisodeRecord.objects.filter(session=session),
        EpisodePack.objects.filter(session=session),
    )


def _rows_remove(rows: QuerySet, turn: Turn, ends_at: float) -> None:
    while ids := list(rows.order_by().values_list("pk", flat=True)[:AT_ONCE]):
        rows.filter(pk__in=ids).delete()
        _go_on(turn, ends_at)


def _go_on(turn: Turn, ends_at: float) -> None:
    turn.renew()
    if time.monotonic() > ends_at:
        raise _RoundIsOver
