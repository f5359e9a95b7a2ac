"""Pages of a list of sessions in each of its orders.

Where a page ends is told by the last session's id and, in the order of a measure, by the value that
it had there: a measure moves while the list is read, and a page begins where the one before it
ended all the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from django.db import connection
from django.db.models import (
    DurationField,
    ExpressionWrapper,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
)
from django.db.models.functions import Cast, Coalesce, Extract, Greatest

from console.errors import InvalidRequest, UnknownCursor
from console.live.selectors import last_measure
from console.sessions.models import RuntimeSpan, Session
from console.users.models import Project
from tinkerscript.wire.sessions import SessionSort

ORDERS = {
    SessionSort.NEWEST: ("-created_at", "-id"),
    SessionSort.PINNED: ("-pinned", "-created_at", "-id"),
    SessionSort.NAME: ("name", "id"),
}
MAX_STEPS = 2**31


@dataclass(frozen=True)
class Measure:
    """A column that sessions are sorted by; ``read`` makes a value of what a cursor has of it, or
    raises ValueError.
    """

    column: str
    read: Callable[[str], Any]


def _number(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError
    return number


def _count(text: str) -> int:
    if not 0 <= (count := int(text)) < MAX_STEPS:
        raise ValueError
    return count


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError from error


MEASURES = {
    SessionSort.REWARD: Measure("reward_mean", _number),
    SessionSort.STEPS: Measure("policy_version", _count),
    SessionSort.ACTIVE: Measure("last_activity_at", _time),
    SessionSort.DEVICE_TIME: Measure("device_s", _number),
    SessionSort.MEASURE: Measure("measured", _number),
}


def session_page(
    sessions: QuerySet[Session],
    *,
    project: Project,
    sort: SessionSort,
    reverse: bool,
    cursor: str | None,
    limit: int,
    sort_by: str | None = None,
) -> tuple[list[Session], str | None]:
    """The page of ``sessions``, all of ``project``, after ``cursor``; the cursor of the next (None:
    this was the last). ``sort_by`` names the measure of the last step that MEASURE sorts by.

    Raises InvalidRequest.
    """
    if (sort is SessionSort.MEASURE) != (sort_by is not None):
        raise InvalidRequest(
            "sort=measure and sort_by belong together.",
            hint="Send sort=measure&sort_by=metrics/turns.",
        )
    measure = MEASURES.get(sort)
    if measure is None:
        columns = [_turned(column) if reverse else column for column in ORDERS[sort]]
        if cursor:
            sessions = sessions.filter(_after(_seen(project, cursor), columns))
        page = list(sessions.order_by(*columns)[: limit + 1])
        return page[:limit], page[limit - 1].id if len(page) > limit else None
    if sort is SessionSort.DEVICE_TIME:
        sessions = sessions.annotate(device_s=_device_s())
    if sort_by is not None:
        sessions = sessions.annotate(measured=last_measure(sort_by))
    if cursor:
        sessions = sessions.filter(_after_measure(project, measure, reverse, cursor))
    value = F(measure.column)
    first = value.asc(nulls_last=True) if reverse else value.desc(nulls_last=True)
    page = list(sessions.order_by(first, "-created_at", "-id")[: limit + 1])
    return page[:limit], _cursor(page[limit - 1], measure) if len(page) > limit else None


def _turned(column: str) -> str:
    return column.removeprefix("-") if column.startswith("-") else f"-{column}"


def _seen(project: Project, session_id: str) -> Session:
    """The last session of a page. It need not pass the list's filters any more."""
    last = Session.objects.filter(project=project, id=session_id).first()
    if last is None:
        raise UnknownCursor()
    return last


def _after(last: Session, columns: Sequence[str]) -> Q:
    """What follows ``last`` in an order by these columns: behind in the first, or level there and
    behind later.
    """
    behind, level = Q(pk__in=[]), Q()
    for column in columns:
        name = column.removeprefix("-")
        side = "lt" if column.startswith("-") else "gt"
        behind |= level & Q(**{f"{name}__{side}": getattr(last, name)})
        level &= Q(**{name: getattr(last, name)})
    return behind


def _after_measure(project: Project, measure: Measure, reverse: bool, cursor: str) -> Q:
    """What follows the session that ``cursor`` names where it stood when its page was read."""
    text, sign, session_id = cursor.rpartition("~")
    if not sign:
        raise UnknownCursor()
    older = _after(_seen(project, session_id), ("-created_at", "-id"))
    if not text:
        return Q(**{f"{measure.column}__isnull": True}) & older
    try:
        value = measure.read(text)
    except ValueError:
        raise UnknownCursor() from None
    behind = Q(**{f"{measure.column}__{'gt' if reverse else 'lt'}": value})
    return (
        behind | (Q(**{measure.column: value}) & older) | Q(**{f"{measure.column}__isnull": True})
    )


def _cursor(last: Session, measure: Measure) -> str:
    value = getattr(last, measure.column)
    text = (
        value.isoformat() if isinstance(value, datetime) else "" if value is None else repr(value)
    )
    return f"{text}~{last.id}"


def _device_s() -> Coalesce:
    """Device-seconds of a session, as ``limits.usage.Spent`` counts them."""
    length = ExpressionWrapper(F("seen_at") - F("started_at"), output_field=DurationField())
    # PostgreSQL has intervals, SQLite microseconds.
    seconds = (
        Extract(length, "epoch")
        if connection.vendor == "postgresql"
        else Cast(length, FloatField()) / 1e6
    )
    devices = Greatest(F("gpus"), Value(1))
    used = Sum(ExpressionWrapper(Cast(seconds, FloatField()) * devices, output_field=FloatField()))
    spans = RuntimeSpan.objects.filter(session_id=OuterRef("id")).order_by().values("session_id")
    return Coalesce(
        Subquery(spans.annotate(used=used).values("used")), Value(0.0), output_field=FloatField()
    )
