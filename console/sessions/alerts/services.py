"""Raising alerts, once each until they are over, and who has read them."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.errors import InvalidRequest
from console.live.models import EventRecord
from console.live.services import event_record
from console.sessions.alerts.rules import WINDOW, alerts_of
from console.sessions.models import Alert, Session
from console.sessions.selectors import session_get
from console.sessions.transitions import session_announce
from console.users.models import Membership, Project, User
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.webhooks import WebhookTopic

MAX_UNREAD = 100  # more are not counted
OF_STEPS = frozenset(
    {
        AlertRule.REWARD_COLLAPSE,
        AlertRule.ENTROPY_COLLAPSE,
        AlertRule.LENGTH_BLOWUP,
        AlertRule.KL,
        AlertRule.ENGINE_GAP,
    }
)


def alert_raise(*, session: Session, rule: AlertRule, text: str, subject: str = "", step: int | None = None) -> None:
    """Raise an alert, and tell record and webhooks, unless the same one about ``subject`` is not over yet."""
    with transaction.atomic():
        alert, is_new = Alert.objects.get_or_create(
            session=session, rule=rule, subject=subject, over_at=None, defaults={"text": text[:400], "step": step}
        )
        if not is_new:
            return
        data = {"rule": rule, "text": alert.text, "step": step}
        event_record(session_id=session.id, kind=EventKind.EVENT, data={"name": "alert", **data})
        told = {"session_id": session.id, **data}
        session_announce(session_id=session.id, topic=WebhookTopic.ALERT_RAISED, data=told)


def steps_watch(*, session: Session, entries: Sequence[ReportEntry]) -> None:
    """Apply the rules after these entries were written: two reads for a report that has a step, none for others."""
    if not any(entry.kind is EventKind.METRIC for entry in entries):
        return
    record = EventRecord.objects.filter(session_id=session.id, kind=EventKind.METRIC).order_by("-id")
    steps = list(record.values_list("data", flat=True)[:WINDOW])[::-1]
    found = alerts_of(steps)
    standing = set(_standing(session).values_list("rule", flat=True))
    if over := standing - set(found):
        _standing(session).filter(rule__in=over).update(over_at=timezone.now())
    for rule, text in found.items():
        if rule not in standing:
            alert_raise(session=session, rule=rule, text=text, step=steps[-1]["step"])


def alert_list(
    *, project: Project, session_id: str | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[list[Alert], str | None]:
    """One page of the project's alerts, or of one session's, newest first. Raises NotFound, InvalidRequest."""
    alerts = Alert.objects.filter(session__project=project)
    if session_id is not None:
        alerts = alerts.filter(session=session_get(project=project, session_id=session_id))
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
            raise InvalidRequest("This cursor belongs to no page of this list.", hint="Start again without a cursor.")
        alerts = alerts.filter(id__lt=int(cursor))
    page = list(alerts.select_related("session").order_by("-id")[: limit + 1])
    return page[:limit], str(page[limit - 1].id) if len(page) > limit else None


def alerts_read(*, project: Project, user: User, upto: int) -> None:
    """This person has seen the project's alerts up to this one."""
    newest = Alert.objects.filter(session__project=project).order_by("-id").values_list("id", flat=True).first() or 0
    mine = Membership.objects.filter(project=project, user=user, alerts_read__lt=min(upto, newest))
    mine.update(alerts_read=min(upto, newest))


def alerts_read_upto(*, project: Project, user: User) -> int:
    """The newest alert that this person has seen; 0 for none."""
    return Membership.objects.filter(project=project, user=user).values_list("alerts_read", flat=True).first() or 0


def alerts_unread(*, project: Project, after: int) -> int:
    """How many alerts follow this one, ``MAX_UNREAD`` at most."""
    return Alert.objects.filter(session__project=project, id__gt=after)[:MAX_UNREAD].count()


def _standing(session: Session) -> QuerySet[Alert]:
    return Alert.objects.filter(session=session, rule__in=OF_STEPS, over_at=None)
