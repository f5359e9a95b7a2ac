"""What the queue of a session has room for, and which names it has already."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import Sum

from console.errors import Conflict, InvalidRequest, QuotaExceeded
from console.sessions.models import Session
from console.sessions.tasks.models import RUNNING, WAITING, QueuedTask

MAX_ATTEMPTS = 100_000  # of a session, those that are over included
MAX_BYTES = 64 << 20  # of the rows that are to be played
# With the outputs that are decided and not all ended: rows that fill the queue keep no group from
# its rewards.
MAX_DECIDED_BYTES = 2 * MAX_BYTES


def json_bytes(value: Any) -> int:
    """Bytes of it as JSON."""
    return len(json.dumps(value))


def duplicates_refuse(session: Session, names: Sequence[str]) -> None:
    """Raises InvalidRequest for a name that is there twice, Conflict for one that is still to be
    played.
    """
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InvalidRequest(
            f"Task {name!r:.80} is there {times} times.", hint="Give each row a name of its own."
        )
    there = QueuedTask.objects.filter(session=session, state__in=(WAITING, RUNNING), name__in=names)
    if found := list(there.order_by("id").values_list("name", flat=True).distinct()[:3]):
        raise Conflict(
            f"Task {found[0]!r:.80} is in the queue already.",
            hint="Put it again once its attempts are over, or ask for more attempts.",
            details={"names": found},
        )


def room_check(session: Session, attempts: int, size_bytes: int) -> None:
    """Raises QuotaExceeded where these are too many, or their rows too large."""
    rows = QueuedTask.objects.filter(session=session)
    found = rows.aggregate(
        attempts=Sum("attempts", default=0), size_bytes=Sum("size_bytes", default=0)
    )
    there, there_bytes = found["attempts"], found["size_bytes"]
    if there + attempts > MAX_ATTEMPTS:
        raise QuotaExceeded(
            f"The queue of a session has room for {MAX_ATTEMPTS} attempts; {there} are there, "
            f"{attempts} were put.",
            hint="Put fewer, or start another session.",
        )
    if there_bytes + size_bytes > MAX_BYTES:
        raise QuotaExceeded(
            f"The rows to be played would have {there_bytes + size_bytes} bytes; {MAX_BYTES} are "
            "allowed.",
            hint="Put the rest when these are done.",
        )


def outputs_room_check(row: QueuedTask, size_bytes: int) -> None:
    """Raises QuotaExceeded where the queue has no room for a judged task of ``size_bytes``, outputs
    included.
    """
    others = QueuedTask.objects.filter(session=row.session_id).exclude(id=row.id)
    all_bytes = others.aggregate(all=Sum("size_bytes", default=0))["all"] + size_bytes
    if all_bytes > MAX_DECIDED_BYTES:
        raise QuotaExceeded(
            f"The queue would have {all_bytes} bytes with these outputs; {MAX_DECIDED_BYTES} are "
            "allowed.",
            hint="End the episodes of groups that are judged, or keep less in the metadata of "
            "their outputs.",
        )
