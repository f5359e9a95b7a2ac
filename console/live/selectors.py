"""Reads of the record."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT, KeyTransform

from console.errors import InvalidRequest
from console.json_numbers import NumberOf
from console.live.models import EventRecord
from tinkerscript.wire.events import OWN, Event, EventKind, EventPage
from tinkerscript.wire.reading.points import (
    MARKED_NAMES,
    MEASURES,
    RESTARTED_FROM,
    MetricAxis,
    MetricColumns,
    Step,
    columns_make,
    marks_thin,
    measures_unknown,
)
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.sessions import SessionState

IS_MARK = Q(kind=EventKind.EVENT, data__name__in=MARKED_NAMES) | Q(
    kind=EventKind.STATE, data__to=SessionState.QUEUED, data__from__in=RESTARTED_FROM
)


def event_list(
    *,
    session_id: str,
    after: int,
    limit: int,
    kinds: Collection[EventKind] = (),
    newest: bool = False,
    marks: bool = False,
) -> list[Event]:
    """At most ``limit`` entries of a session that follow the cursor ``after``, oldest first.

    With ``newest`` the last so many instead of the first, with ``marks`` those of points.py alone.
    The caller has checked that the session is the reader's
    (console.sessions.selectors.session_get).
    """
    records = EventRecord.objects.filter(session_id=session_id, id__gt=after).order_by(
        "-id" if newest else "id"
    )
    if kinds:
        records = records.filter(kind__in=kinds)
    if marks:
        records = records.filter(IS_MARK)
    events = [_event(record) for record in records[:limit]]
    return events[::-1] if newest else events


def last_measures(*, session_ids: Collection[str]) -> dict[str, dict[str, float]]:
    """The measures of the last step of each of these sessions, by the names of columns; of one
    without a step none.

    The caller has checked that the sessions are the reader's.
    """
    steps = EventRecord.objects.filter(
        session_id=OuterRef("session_id"), kind=EventKind.METRIC
    ).order_by("-id")
    last = EventRecord.objects.filter(
        session_id__in=session_ids, id=Subquery(steps.values("id")[:1])
    )
    return {
        session_id: _measures(data) for session_id, data in last.values_list("session_id", "data")
    }


def last_measure(name: str) -> Subquery:
    """What the last step of a session, the row of the outer query, measured under the name of a
    column; NULL where it did not. Raises InvalidRequest.
    """
    _measures_check([name])
    steps = EventRecord.objects.filter(session_id=OuterRef("id"), kind=EventKind.METRIC)
    return Subquery(steps.order_by("-id").annotate(measured=number_of(name)).values("measured")[:1])


def number_of(name: str) -> NumberOf:
    """What a recorded step has under the name of a column."""
    of = KeyTransform("metrics", "data") if name.startswith(OWN) else "data"
    return NumberOf(of, name.removeprefix(OWN))


def _measures_check(names: Collection[str]) -> None:
    """Raises InvalidRequest for names that no column has."""
    if unknown := measures_unknown(names):
        raise InvalidRequest(
            f"Unknown measures: {', '.join(unknown)}",
            hint=f"There are {', '.join(sorted(MEASURES))}, and {OWN}<name> for what agents "
            "measure.",
        )


def _measures(step: Step) -> dict[str, float]:
    own = {OWN + name: value for name, value in (step.get("metrics") or {}).items()}
    known = {name: step[name] for name in MEASURES if name in step}
    return {name: value for name, value in (known | own).items() if isinstance(value, int | float)}


def marks_spread(*, session_id: str, after: int, limit: int) -> EventPage:
    """At most ``limit`` marks that follow the cursor, of each kind over the whole of the record,
    and how many are left out. The caller has checked as that of ``event_list``.
    """
    records = EventRecord.objects.filter(IS_MARK, session_id=session_id, id__gt=after).order_by(
        "id"
    )
    marks = [
        (cursor, name or kind)
        for cursor, kind, name in records.values_list("id", "kind", KT("data__name"))
    ]
    kept = marks_thin(marks, limit)
    events = [_event(record) for record in EventRecord.objects.filter(id__in=kept).order_by("id")]
    return EventPage(
        items=events, next_cursor=kept[-1] if kept else after, left_out=len(marks) - len(kept)
    )


def _event(record: EventRecord) -> Event:
    return Event(cursor=record.id, kind=EventKind(record.kind), at=record.at, data=record.data)


def events_named(*, session_id: str, name: str) -> QuerySet[EventRecord]:
    """What the control plane recorded under this name of a session, oldest first."""
    return EventRecord.objects.filter(
        session_id=session_id, kind=EventKind.EVENT, data__name=name
    ).order_by("id")


def event_cursor_latest(*, session_id: str) -> int:
    """The cursor of the newest entry, 0 when there is none."""
    newest = (
        EventRecord.objects.filter(session_id=session_id)
        .order_by("-id")
        .values_list("id", flat=True)
        .first()
    )
    return newest or 0


def steps_new(*, session_id: str, entries: Sequence[ReportEntry]) -> list[Step]:
    """The steps among ``entries`` that are not recorded yet, in order: one read, none where there
    is no step.
    """
    steps: dict[str, Step] = {}
    for entry in entries:
        if entry.kind is EventKind.METRIC:
            steps.setdefault(entry.key, entry.data)
    if not steps:
        return []
    known = set(
        EventRecord.objects.filter(session_id=session_id, key__in=list(steps)).values_list(
            "key", flat=True
        )
    )
    return [step for key, step in steps.items() if key not in known]


def metric_columns(
    *,
    session_id: str,
    created_at: datetime,
    names: Collection[str],
    axis: MetricAxis,
    after: int,
    points: int,
    x_from: float | None = None,
    x_to: float | None = None,
    extremes: bool = True,
) -> MetricColumns:
    """The steps recorded after the cursor ``after``, within a part of the axis, as at most
    ``points`` points; no names mean every measure. Without ``extremes`` a point of several steps
    has the values of its last step alone.

    Of a step that was done again after a restart the last record counts. Raises InvalidRequest for
    unknown names.
    """
    _measures_check(names)
    cursor = event_cursor_latest(session_id=session_id)
    recorded = EventRecord.objects.filter(
        session_id=session_id, kind=EventKind.METRIC, id__lte=cursor
    ).order_by("id")
    by_step: dict[int, dict[str, Any]] = {}
    for record_id, at, data in recorded.values_list("id", "at", "data"):
        by_step[data["step"]] = data | {"id": record_id, "at": (at - created_at).total_seconds()}
    every = [by_step[number] for number in sorted(by_step)]
    return columns_make(
        every,
        cursor=cursor,
        axis=axis,
        names=names,
        after=after,
        x_from=x_from,
        x_to=x_to,
        points=points,
        extremes=extremes,
    )
