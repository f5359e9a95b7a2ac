"""Reads of the record."""

from collections.abc import Iterable

from django.db.models import BigIntegerField, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from console.live.models import EventRecord
from tinkerscript.wire.events import Event, EventKind


def event_list(*, session_id: str, after: int, limit: int, kind: EventKind | None = None) -> list[Event]:
    """At most ``limit`` entries of a session that follow the cursor ``after``, oldest first.

    The caller has checked that the session is the reader's (console.sessions.selectors.session_get).
    """
    records = EventRecord.objects.filter(session_id=session_id, id__gt=after).order_by("id")
    if kind is not None:
        records = records.filter(kind=kind)
    return [
        Event(cursor=record.id, kind=EventKind(record.kind), at=record.at, data=record.data)
        for record in records[:limit]
    ]


def event_cursor_latest(*, session_id: str) -> int:
    """The cursor of the newest entry, 0 when there is none."""
    newest = EventRecord.objects.filter(session_id=session_id).order_by("-id").values_list("id", flat=True).first()
    return newest or 0


def tokens_trained_sum(*, session_ids: Iterable[str]) -> dict[str, int]:
    """The tokens that the recorded steps of each session trained; a session without a step is left out."""
    steps = EventRecord.objects.filter(session_id__in=session_ids, kind=EventKind.METRIC).order_by()
    tokens = Sum(Cast(KT("data__tokens_trained"), BigIntegerField()))
    return dict(steps.values("session_id").annotate(tokens=tokens).values_list("session_id", "tokens"))
