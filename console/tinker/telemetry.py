"""What Tinker clients say of themselves, on the record of their runtimes: each event and all of
them have a bound.
"""

import json
import math
import time
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.live.models import EventRecord
from console.live.services import event_record
from console.tinker.models import TinkerRuntime, TinkerSession
from tinkerscript.wire.events import EventKind

OF_ONE_MESSAGE, LOUD = 50, ("WARNING", "ERROR", "CRITICAL")  # events
# events of a runtime: what a client says for hours, at the pace of ``tinker`` 0.38
ON_RECORD = 2_000
EVENT_BYTES = 16 << 10
# depth, and characters of a text: the first by which an event is small enough
CUTS = ((4, 2_000), (4, 200), (1, 200))
KEY = "client-"  # how the keys of these entries begin; those of runtimes begin with their kind


def telemetry_keep(*, tinker_session: TinkerSession, events: list[dict[str, Any]]) -> None:
    """Put what a client says of itself on the record of its runtimes, or keep it until it has one.

    Of more than OF_ONE_MESSAGE of one message, or before a runtime, those go first that say least;
    of more than ON_RECORD on a record, the oldest.
    """
    loudest = [_small(event) for event in _loudest(events)]
    with transaction.atomic():
        row = TinkerSession.objects.select_for_update(no_key=True).get(id=tinker_session.id)
        runtimes = list(row.runtimes.all())
        if not runtimes:
            row.early_telemetry = _loudest(row.early_telemetry + loudest)
            row.save(update_fields=["early_telemetry"])
        for runtime in runtimes:
            telemetry_record(runtime, loudest)


def telemetry_record(runtime: TinkerRuntime, events: list[dict[str, Any]]) -> None:
    """Put them on the runtime's record, in their order."""
    for number, event in enumerate(events):
        data = {"name": "tinker_client", "at": timezone.now().isoformat(), "event": event}
        key = f"{KEY}{time.time_ns():020d}-{number}"
        event_record(session_id=runtime.session_id, kind=EventKind.EVENT, data=data, key=key)
    # A range of the index by key: what else is on the record is not looked at.
    rows = EventRecord.objects.filter(
        session_id=runtime.session_id, key__gte=KEY, key__lt=f"{KEY}~"
    )
    if too_many := rows.count() - ON_RECORD:
        rows.filter(
            pk__in=list(rows.order_by("key").values_list("pk", flat=True)[: max(0, too_many)])
        ).delete()


def _loudest(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most OF_ONE_MESSAGE, in their order."""
    ranked = sorted(range(len(events)), key=lambda at: events[at].get("severity") not in LOUD)
    return [events[at] for at in sorted(ranked[:OF_ONE_MESSAGE])]


def _small(event: dict[str, Any]) -> dict[str, Any]:
    """The event, of a size that a record can hold."""
    for depth, characters in CUTS:
        cut: dict[str, Any] = _cut(event, depth, characters)
        if len(json.dumps(cut)) <= EVENT_BYTES:
            return cut
    return {"event": str(event.get("event"))[:200], "severity": str(event.get("severity"))[:200]}


def _cut(value: Any, depth: int, characters: int) -> Any:
    if isinstance(value, str):
        return value[:characters]
    if isinstance(value, dict):
        items = list(value.items())[:40] if depth else []
        return {str(name)[:100]: _cut(each, depth - 1, characters) for name, each in items}
    if isinstance(value, list):
        return [_cut(each, depth - 1, characters) for each in value[:40]] if depth else []
    if (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, float) and math.isfinite(value))
    ):
        return value
    return value if isinstance(value, int) and abs(value) < 2**63 else str(value)[:characters]
