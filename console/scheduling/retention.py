"""What goes by itself: logs, events and samples of sessions that ended long ago, deliveries,
responses, sign-ins.

Metrics of steps stay as long as their session: what was used is counted from them.
"""

import time
from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.models import Session as BrowserSession
from django.db.models import QuerySet
from django.utils import timezone

from console.live.models import EventRecord, LogChunk, ResourceChunk
from console.sessions.models import Session
from console.sessions.states import ENDED
from console.tinker.models import TinkerSession
from console.users.idempotency import KEPT_FOR as RESPONSES_KEPT_FOR
from console.users.models import IdempotencyRecord
from console.webhooks.models import Delivery
from console.webhooks.services import KEPT_FOR as DELIVERIES_KEPT_FOR
from tinkerscript.wire.events import EventKind

IDLE_CLIENTS_KEPT_FOR = timedelta(days=30)  # Tinker sessions that used no model
AT_ONCE = 1_000  # rows of one statement: a longer one would keep writers waiting
EACH_S = 5.0  # of a round's minute, for each kind of row


MEASURED = (EventKind.METRIC, EventKind.EVALUATION)  # what a finished run is read for


def expired_remove() -> None:
    """Remove some of each; the next round removes more."""
    now = timezone.now()
    for rows in (
        Delivery.objects.filter(next_at=None, created_at__lt=now - DELIVERIES_KEPT_FOR),
        IdempotencyRecord.objects.filter(created_at__lt=now - RESPONSES_KEPT_FOR),
        BrowserSession.objects.filter(expire_date__lt=now),
        TinkerSession.objects.filter(
            finished__isnull=False,
            heartbeat_at__lt=now - IDLE_CLIENTS_KEPT_FOR,
            runtimes=None,
            models=None,
        ),
    ):
        _delete_some(rows)
    if settings.RECORD_DAYS:
        before = now - timedelta(days=settings.RECORD_DAYS)
        ended = (
            Session.objects.filter(state__in=ENDED, state_since__lt=before).order_by().values("id")
        )
        _delete_some(EventRecord.objects.filter(session_id__in=ended).exclude(kind__in=MEASURED))
        _delete_some(LogChunk.objects.filter(session_id__in=ended))
        _delete_some(ResourceChunk.objects.filter(session_id__in=ended))


def _delete_some(rows: QuerySet) -> None:
    until = time.monotonic() + EACH_S
    while ids := list(rows.order_by().values_list("pk", flat=True)[:AT_ONCE]):
        rows.filter(pk__in=ids).delete()
        if len(ids) < AT_ONCE or time.monotonic() > until:
            return
