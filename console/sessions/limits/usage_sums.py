"""Adding up what does not change any more, so that usage costs the same to read however long a
project is used.

A runtime's span is final once no session that goes on has its lease. Until it is added up, readers
add it themselves.
"""

from collections import defaultdict
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from console.sessions.models import RuntimeSpan, Session, UsageSum
from console.sessions.states import GOING

# a lease that is being given to a session has a span before the session has it
FINAL_AFTER = timedelta(minutes=10)
AT_ONCE = 1000
PAYER = ("project_id", "session_id", "key_id", "person_id", "gpus")


def usage_sum() -> None:
    """Add up the spans that are final."""
    while _spans_sum() == AT_ONCE:
        pass


def _spans_sum() -> int:
    """How many spans were added: AT_ONCE at the most."""
    held = (
        Session.objects.filter(state__in=GOING)
        .exclude(lease_sha256="")
        .values_list("lease_sha256", flat=True)
    )
    spans = RuntimeSpan.objects.filter(summed=False, seen_at__lt=timezone.now() - FINAL_AFTER)
    with transaction.atomic():
        some = list(
            spans.exclude(lease_sha256__in=list(held))
            .select_for_update()
            .order_by("project_id", "id")[:AT_ONCE]
        )
        seconds: defaultdict[tuple[tuple[str, Any], ...], float] = defaultdict(float)
        for span in some:
            payer = tuple((name, getattr(span, name)) for name in PAYER)
            seconds[payer] += (span.seen_at - span.started_at).total_seconds()
        there = UsageSum.objects.filter(session_id__in={span.session_id for span in some}).order_by(
            "-id"
        )
        rows = {tuple((name, getattr(row, name)) for name in PAYER): row.id for row in there}
        for payer in seconds.keys() & rows.keys():
            UsageSum.objects.filter(id=rows[payer]).update(seconds=F("seconds") + seconds[payer])
        new = [
            UsageSum(**dict(payer), seconds=seconds[payer])
            for payer in seconds.keys() - rows.keys()
        ]
        UsageSum.objects.bulk_create(new)
        RuntimeSpan.objects.filter(id__in=[span.id for span in some]).update(
            summed=True, summed_at=timezone.now()
        )
    return len(some)
