"""What runtimes did for Tinker clients: durations of operations, for traces, and the tokens of each
hour, for usage.
"""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from console.sessions.models import Session
from console.sessions.runtime.leases import lease_lock
from console.tinker.calls import calls_record
from console.tinker.models import TinkerRuntime, TinkerTokens, TinkerWork
from console.users.models import Project
from tinkerscript.wire.tinker.messages import WorkReport

REPORTS_KEPT = 2000  # of a session


def work_record(*, session: Session, body: WorkReport) -> None:
    """Take a runtime's report, once. Its tokens count in this hour. Raises StaleLease."""
    spans = [span.model_dump(exclude_defaults=True) for span in body.spans]
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    with transaction.atomic():
        lease_lock(session)
        _row, is_new = TinkerWork.objects.get_or_create(
            session=session, key=body.key, defaults={"spans": spans}
        )
        if not is_new:
            return
        known = set(
            TinkerRuntime.objects.filter(
                session=session, tinker_session__in=body.tokens
            ).values_list("tinker_session_id", flat=True)
        )
        for client, tokens in body.tokens.items():
            if client in known:
                of_hour, _ = TinkerTokens.objects.get_or_create(
                    session=session, tinker_session_id=client, hour=hour
                )
                TinkerTokens.objects.filter(id=of_hour.id).update(
                    **{name: F(name) + count for name, count in tokens.model_dump().items()}
                )
        trained = sum(tokens.training for tokens in body.tokens.values())
        Session.objects.filter(id=session.id).update(tokens_trained=F("tokens_trained") + trained)
        calls_record(session=session, reported=body.calls)
        kept = (
            TinkerWork.objects.filter(session=session).order_by("-id").values_list("id", flat=True)
        )
        if (oldest := kept[REPORTS_KEPT - 1 : REPORTS_KEPT].first()) is not None:
            TinkerWork.objects.filter(session=session, id__lt=oldest).delete()


def spans_of(*, session_id: str) -> list[dict[str, Any]]:
    """The spans that are kept of a session, those of the oldest report first."""
    reports = (
        TinkerWork.objects.filter(session_id=session_id)
        .order_by("id")
        .values_list("spans", flat=True)
    )
    return [span for spans in reports for span in spans]


def tokens_of(*, project: Project, began: datetime, ended: datetime) -> QuerySet[TinkerTokens]:
    """The hours from ``began`` up to ``ended`` in which runtimes of the project did something, in
    order.
    """
    rows = TinkerTokens.objects.filter(
        tinker_session__project=project, hour__gte=began, hour__lt=ended
    )
    return rows.select_related("session", "tinker_session__key__user").order_by("hour", "id")
