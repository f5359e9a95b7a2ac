"""Budgets of sessions and caps of keys: what has used one up ends, first a checkpoint, then the
stop; and where one is heading at the pace that its session had so far.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from console.live.models import EventRecord
from console.live.services import event_record
from console.sessions.checkpoints.checkpoints import checkpoint_order
from console.sessions.limits.usage import Spent, key_spent_s, session_spent
from console.sessions.models import Alert, Checkpoint, Session
from console.sessions.raised_alerts import alert_raise, alerts_close
from console.sessions.services import session_stop
from console.sessions.states import ENDED, GOING, UNWRITTEN, WITH_RUNTIME, Desired
from console.sessions.transitions import session_announce
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.projects import DevicePrices, LimitForecast, SessionSpending
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.sessions import Budget, SessionKind, SessionState
from tinkerscript.wire.webhooks import WebhookTopic

NEAR = 0.9  # of a limit
ALERT_SHARES = (0.5, 0.8, 1.0)
KEY_LIMIT = "spend_cap_s"  # of all sessions that the key started
CHECKPOINT_WAIT_S = 600.0  # then it stops without one
Limit = tuple[str, float, float]  # name, limit, used
# a runtime that has not registered may wait in a cluster
WITH_DEVICES = WITH_RUNTIME - {SessionState.PROVISIONING}


def sessions_over_budget_stop() -> None:
    """Stop, in good order, every session that has used its budget or its key's cap."""
    going = (
        Session.objects.filter(state__in=GOING)
        .exclude(desired=Desired.STOP)
        .order_by("created_at", "id")
    )
    if settings.LIMITS.hours is None:
        going = going.exclude(budget={}, key__spend_cap_s__isnull=True)
    if not going.exists():  # as in most seconds: all that follows is large to ask
        return
    raised = _alerts_raised(going)
    near: list[tuple[Session, Limit]] = []
    for session in going.select_related("key", "project"):
        limits = list(session_limits(session))
        _alert(session, limits, raised)
        if reached := next((limit for limit in limits if limit[2] >= limit[1]), None):
            _end(session, *reached)
            continue
        near += [(session, limit) for limit in limits if limit[2] >= NEAR * limit[1]]
    _near(near)


def session_limits(session: Session, spent: Spent | None = None) -> Iterator[Limit]:
    """The limits that the session has: name, what it allows, what is used. ``spent``: what it used,
    where that was read.
    """
    budget = Budget.model_validate(session.budget)
    is_asked = settings.LIMITS.hours is not None or budget.device_s is not None
    if spent is None:
        spent = session_spent(session=session) if is_asked else Spent()
    if settings.LIMITS.hours is not None:
        yield "hours", settings.LIMITS.hours, spent.runtime_s / 3600
    if budget.steps is not None:
        yield "steps", budget.steps, session.policy_version_high
    if budget.wall_s is not None:
        until = session.state_since if session.state in ENDED else timezone.now()
        yield "wall_s", budget.wall_s, (until - session.created_at).total_seconds()
    if budget.device_s is not None:
        yield "device_s", budget.device_s, spent.device_s
    if session.key and session.key.spend_cap_s is not None:
        yield KEY_LIMIT, session.key.spend_cap_s, key_spent_s(key=session.key)


def _alerts_raised(sessions: QuerySet[Session]) -> set[tuple[str | None, str]]:
    """The alerts that there were of these sessions' limits: the id of the session, or of the key,
    and the subject.
    """
    of_keys = Q(
        session__key__in=sessions.exclude(key=None).values("key"),
        subject__startswith=f"{KEY_LIMIT} ",
    )
    alerts = Alert.objects.filter(
        Q(session__in=sessions.values("id")) | of_keys, rule=AlertRule.BUDGET
    )
    return {
        (key_id if subject.startswith(f"{KEY_LIMIT} ") else session_id, subject)
        for session_id, key_id, subject in alerts.values_list(
            "session_id", "session__key_id", "subject"
        )
    }


def _alert(session: Session, limits: Sequence[Limit], raised: set[tuple[str | None, str]]) -> None:
    """Raise an alert for each share of a limit that is used, once: of those that are passed
    together, the highest.

    A key's limit is one alert, of whichever of its sessions is looked at first, and is added to
    ``raised``.
    """
    for limit, allowed, used in limits:
        shares = [share for share in ALERT_SHARES if used >= share * allowed]
        subject = f"{limit} {max(shares):.0%}" if shares else ""
        whose = session.key_id if limit == KEY_LIMIT else session.id
        if not shares or (whose, subject) in raised:
            continue
        raised.add((whose, subject))
        text = f"{used / allowed:.0%} of the limit {limit} is used: {used:.4g} of {allowed:.4g}"
        lower = Alert.objects.filter(
            rule=AlertRule.BUDGET, subject__startswith=f"{limit} "
        ).exclude(subject=subject)
        with transaction.atomic():
            alert_raise(session=session, rule=AlertRule.BUDGET, subject=subject, text=text)
            alerts_close(
                lower.filter(session__key=whose)
                if limit == KEY_LIMIT
                else lower.filter(session=session)
            )


def _near(near: Sequence[tuple[Session, Limit]]) -> None:
    """Say of each limit once that it is near: one read for all of them, however long they stay
    so.
    """
    ids, keys = {session.id for session, _ in near}, {_near_key(limit) for _, (limit, _, _) in near}
    told = set(
        EventRecord.objects.filter(session_id__in=ids, key__in=keys).values_list(
            "session_id", "key"
        )
    )
    for session, (limit, allowed, used) in near:
        if (session.id, key := _near_key(limit)) in told:
            continue
        data = {"limit": limit, "allowed": allowed, "used": used}
        with transaction.atomic():
            said = {"name": "budget_near"} | data
            event_record(session_id=session.id, kind=EventKind.EVENT, data=said, key=key)
            body = {"session_id": session.id} | data
            session_announce(session_id=session.id, topic=WebhookTopic.BUDGET_NEAR, data=body)


def _near_key(limit: str) -> str:
    return f"budget near {limit}"


def _end(session: Session, limit: str, allowed: float, used: float) -> None:
    data = {"name": "budget_exhausted", "limit": limit, "allowed": allowed, "used": used}
    # once
    event_record(session_id=session.id, kind=EventKind.EVENT, data=data, key=f"budget {limit}")
    last = session.checkpoints.filter(kind=CheckpointKind.MODEL).order_by("-created_at").first()
    learns = session.kind == SessionKind.EPISODES  # what a Tinker client trains, it saves itself
    if learns and session.state == SessionState.READY and not _is_kept(session, last):
        if last is None or last.state not in UNWRITTEN:
            checkpoint_order(session=session, kind=CheckpointKind.MODEL)
            return
        if timezone.now() - last.created_at < timedelta(seconds=CHECKPOINT_WAIT_S):
            return
    session_stop(project=session.project, session_id=session.id)


def _is_kept(session: Session, last: Checkpoint | None) -> bool:
    """Whether what the session learned is in a checkpoint, or cannot be put into one."""
    if session.policy_version == 0:
        return True
    if last is None or last.state in UNWRITTEN:
        return False
    return last.state == CheckpointState.FAILED or (last.step or 0) >= session.policy_version


def session_spending(*, session: Session, with_key: bool) -> SessionSpending:
    """What it used up to its runtime's last heartbeat, and when each of its limits is reached.

    ``with_key``: the cap of the key that started it too.
    """
    spent, prices = session_spent(session=session), settings.DEVICE_PRICES
    per_hour = _per_hour(session, prices) if session.state in WITH_DEVICES else None
    return SessionSpending(
        runtime_s=spent.runtime_s,
        device_s=spent.device_s,
        cost=spent.cost,
        cost_per_hour=per_hour,
        prices=prices,
        limits=[
            limit
            for limit in _forecasts(session, spent, per_hour)
            if with_key or limit.limit != KEY_LIMIT
        ],
    )


def _per_hour(session: Session, prices: DevicePrices | None) -> float | None:
    if prices is None:
        return None
    return session.devices * prices.gpu if session.devices else prices.cpu


def _forecasts(session: Session, spent: Spent, per_hour: float | None) -> Iterator[LimitForecast]:
    for name, allowed, used in session_limits(session, spent):
        is_clock = name == "wall_s"  # it goes on while no runtime is there, and costs nothing then
        pace = 1.0 if is_clock else _pace(session, name, used, spent)
        left_s = (
            max(0.0, allowed - used) / pace if pace > 0 and session.state not in ENDED else None
        )
        rate = per_hour if is_clock else _mean_per_hour(spent)
        cost = None
        if spent.cost is not None and rate is not None and left_s is not None:
            cost = spent.cost + rate * left_s / 3600
        yield LimitForecast(
            limit=name, allowed=allowed, used=used, left_s=left_s, cost_at_limit=cost
        )


def _pace(session: Session, limit: str, used: float, spent: Spent) -> float:
    """What a second of the session's runtimes used of the limit; 0 where that is not known."""
    if spent.runtime_s <= 0 or (limit == KEY_LIMIT and _shares_its_key(session)):
        return 0.0
    if limit == "hours":
        return 1 / 3600
    return (used if limit == "steps" else spent.device_s) / spent.runtime_s


def _shares_its_key(session: Session) -> bool:
    """Whether other sessions of its key have a runtime: they use the key's cap too, each at a pace
    of its own.
    """
    return (
        Session.objects.filter(key_id=session.key_id, state__in=WITH_RUNTIME)
        .exclude(id=session.id)
        .exists()
    )


def _mean_per_hour(spent: Spent) -> float | None:
    return (
        None if spent.cost is None or spent.runtime_s <= 0 else spent.cost / spent.runtime_s * 3600
    )
