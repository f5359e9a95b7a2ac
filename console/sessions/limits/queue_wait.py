"""How long queued sessions will wait, from how often places became free lately. What was not measured is not told."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from console.sessions.limits.queue import queue_place_new, queue_places
from console.sessions.models import RuntimeSpan, Session
from tinkerscript.wire.sessions import SessionState

WITHIN = timedelta(hours=24)  # what was before says little about now
NEWEST = 50  # places that became free: a busy server is measured by its last hour, a quiet one by its day
LEAST = 3  # two stretches between them: of fewer nothing is told
FREED = (SessionState.STOPPED, SessionState.FAILED, SessionState.SUSPENDED)


def queue_look(sessions: Sequence[Session]) -> dict[str, tuple[int, float | None]]:
    """Of each that is queued its position (1 is next), and the seconds until it starts, or None where they are unknown:
    its quota holds it back, too few places became free, or the server has several places, each with a pace of its own
    behind one queue.

    The place that number n waits for becomes free after n times the mean time between two. Reads at most ``NEWEST``
    rows of each state, whatever the queue's length.
    """
    queued = [session for session in sessions if session.state == SessionState.QUEUED]
    if not queued:
        return {}
    known = queue_places([session.id for session in queued])
    paces: dict[int, float | None] = {}
    found = {}
    for session in queued:
        position, is_held = known.get(session.id) or queue_place_new(session=session)
        devices = max(1, session.devices or 1)
        if devices not in paces:
            paces[devices] = None if settings.PLACES else seconds_between(freed_at(devices), timezone.now())
        pace = paces[devices]
        found[session.id] = position, None if pace is None or is_held else round(position * pace, 1)
    return found


def freed_at(devices: int) -> list[datetime]:
    """When the last places with at least so many devices became free, newest first: a session that had a runtime ended
    or was suspended. One that started anew in its own place freed none."""
    ran = Exists(RuntimeSpan.objects.filter(session_id=OuterRef("id")))
    since = timezone.now() - WITHIN
    moments: list[datetime] = []
    for state in FREED:  # one by one: each is a stretch of the index
        rows = Session.objects.filter(ran, state=state, state_since__gt=since)
        if devices > 1:
            rows = rows.filter(devices__gte=devices)
        moments += rows.order_by("-state_since").values_list("state_since", flat=True)[:NEWEST]
    return sorted(moments, reverse=True)[:NEWEST]


def seconds_between(freed: Sequence[datetime], now: datetime) -> float | None:
    """The mean time between two of these, the time since the last one with it."""
    if len(freed) < LEAST:
        return None
    return max(1.0, (now - freed[-1]).total_seconds()) / (len(freed) - 1)
