"""What raises alerts as a run is recorded, and who has read them."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from statistics import fmean

from django.db.models import QuerySet
from django.utils import timezone

from console.errors import UnknownCursor
from console.live.models import EventRecord
from console.live.selectors import number_of
from console.sessions.alerts.metric_rules import metric_rules_of, rule_text
from console.sessions.alerts.models import MetricRule
from console.sessions.alerts.rules import MAX_ENGINE_GAP, MEAN_OF, RULES, WINDOW, Step, alerts_of
from console.sessions.models import Alert, Session
from console.sessions.raised_alerts import alert_raise, alerts_close
from console.sessions.selectors import session_get
from console.sessions.transitions import session_announce
from console.users.models import Membership, Project, User
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.reading.points import measure_of
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.webhooks import WebhookTopic

EARLIER = 2000  # steps before the window in which a rule looks for a measure that few steps have
MAX_UNREAD = 100  # more are not counted
AGAIN_AFTER = 50  # steps from one alert of a rule to the next
# Events of runtimes that raise an alert with their own words. Of nothing_to_learn there is no step
# to look at.
TOLD_BY_EVENT = {
    "nothing_to_learn": AlertRule.EQUAL_REWARDS,
    "episodes_stale": AlertRule.EPISODES_DROPPED,
    "store_full": AlertRule.DISK,
    "storage_unavailable": AlertRule.DISK,
}
STORE = "store"  # what the alert of a disk is about
DROPPED_AGAIN = timedelta(hours=1)  # from one alert of dropped episodes to the next
# why episodes were dropped: each raises an alert of its own
ALERTED = ("nothing to learn", "step_refused")


def steps_watch(*, session: Session, new: int) -> None:
    """Apply the rules after each of the last ``new`` steps of the record: three reads, or none
    without a step.

    Two more for each rule of the project whose measure is in few of the last steps, at a step that
    has it.
    """
    if new == 0:
        return
    own = metric_rules_of(session)
    record = EventRecord.objects.filter(session_id=session.id, kind=EventKind.METRIC).order_by(
        "-id"
    )
    rows = list(record.values_list("id", "data")[: WINDOW + new - 1])[::-1]
    steps = [data for _, data in rows]

    def earlier(metric: str, count: int) -> list[float]:
        # Read only at a step that has the measure, so that one in few steps costs few reads; and
        # never a whole record.
        before = record.filter(id__lt=rows[0][0])
        oldest = [*before.values_list("id", flat=True)[EARLIER - 1 : EARLIER], 0][0]
        measured = before.filter(id__gte=oldest).annotate(value=number_of(metric))
        return list(measured.filter(value__isnull=False).values_list("value", flat=True)[:count])

    standing = set(_standing(session).values_list("rule", "subject"))
    for at in range(len(steps))[-new:]:
        found = _found(steps[: at + 1], own, standing, earlier)
        for rule, subject in standing - set(found):
            alerts_close(_standing(session).filter(rule=rule, subject=subject))
        standing &= set(found)
        for (rule, subject), text in found.items():
            if (rule, subject) not in standing and _is_due(
                session, rule, subject, steps[at]["step"]
            ):
                alert_raise(
                    session=session, rule=rule, subject=subject, text=text, step=steps[at]["step"]
                )
                standing.add((rule, subject))
                if rule is AlertRule.ENGINE_GAP:
                    last = steps[: at + 1][-MEAN_OF:]
                    _drift_announce(
                        session, fmean(step["kl_engine"] for step in last), last[-1]["step"]
                    )


def events_watch(*, session: Session, entries: Sequence[ReportEntry]) -> None:
    """Raise what events among ``entries`` tell: refused steps with a gap, and those of
    ``TOLD_BY_EVENT``.

    What they say of steps is over with the first step that is done without it, as the rules over
    steps are.
    """
    for data in (entry.data for entry in entries if entry.kind is EventKind.EVENT):
        name, step = data.get("name"), data.get("step", session.policy_version)
        if not isinstance(step, int) or str(data.get("why", "")).startswith(ALERTED):
            continue
        if name == "step_refused" and isinstance(gap := data.get("kl_engine"), int | float):
            _refusal_raise(session, gap, step)
        elif rule := TOLD_BY_EVENT.get(str(name)):
            subject = STORE if rule is AlertRule.DISK else ""
            if rule is not AlertRule.DISK and not _is_due(session, rule, "", step):
                continue
            text, hint = str(data.get("reason", "")), str(data.get("hint") or "")
            alert_raise(
                session=session,
                rule=rule,
                subject=subject,
                text=text,
                hint=hint,
                step=data.get("step"),
            )


def _refusal_raise(session: Session, gap: float, step: int) -> None:
    """Raise ENGINE_GAP for a step that a gap refused: such a step leaves no measures to look at."""
    rule = AlertRule.ENGINE_GAP
    if not session.alerts.filter(rule=rule, over_at=None).exists() and _is_due(
        session, rule, "", step
    ):
        text = f"Step {step} was refused: a KL of {gap:.3g} between engine and trainer."
        alert_raise(session=session, rule=rule, text=text, step=step)
        _drift_announce(session, gap, step)


def _found(
    steps: Sequence[Step],
    own: Sequence[MetricRule],
    standing: Collection[tuple[str, str]],
    earlier: Callable[[str, int], list[float]],
) -> dict[tuple[AlertRule, str], str]:
    """What holds after the last of ``steps``, by rule and subject: of the default rules, and the
    project's own.
    """
    default = alerts_of(steps, {rule for rule, _ in standing})
    found = {(rule, ""): text for rule, text in default.items()}
    for rule in own:
        name = (AlertRule.METRIC_RULE, rule.id)
        if measure_of(steps[-1], rule.metric) is None:
            text = "" if name in standing else None  # what stood before this step stands
        else:
            text = rule_text(rule, steps, earlier)
        if text is not None:
            found[name] = text
    return found


def alert_list(
    *,
    project: Project,
    session_id: str | None = None,
    standing: bool = False,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[list[Alert], str | None]:
    """One page of the project's alerts, or of one session's, newest first; with ``standing`` those
    that are not over.

    Raises NotFound, InvalidRequest.
    """
    alerts = Alert.objects.filter(session__project=project)
    if session_id is not None:
        alerts = alerts.filter(session=session_get(project=project, session_id=session_id))
    if standing:
        alerts = alerts.filter(over_at=None)
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
            raise UnknownCursor()
        alerts = alerts.filter(id__lt=int(cursor))
    page = list(alerts.select_related("session").order_by("-id")[: limit + 1])
    return page[:limit], str(page[limit - 1].id) if len(page) > limit else None


def alerts_read(*, project: Project, user: User, upto: int) -> None:
    """This person has seen the project's alerts up to this one."""
    newest = (
        Alert.objects.filter(session__project=project)
        .order_by("-id")
        .values_list("id", flat=True)
        .first()
        or 0
    )
    mine = Membership.objects.filter(project=project, user=user, alerts_read__lt=min(upto, newest))
    mine.update(alerts_read=min(upto, newest))


def alerts_read_upto(*, project: Project, user: User) -> int:
    """The newest alert that this person has seen; 0 for none."""
    return (
        Membership.objects.filter(project=project, user=user)
        .values_list("alerts_read", flat=True)
        .first()
        or 0
    )


def alerts_unread(*, project: Project, after: int) -> int:
    """How many alerts follow this one, ``MAX_UNREAD`` at most."""
    return Alert.objects.filter(session__project=project, id__gt=after)[:MAX_UNREAD].count()


def _drift_announce(session: Session, gap: float, step: int) -> None:
    """Tell webhooks that sampling and training have drifted apart: the rule that was raised."""
    data = {"session_id": session.id, "step": step, "kl_engine": gap, "bound": MAX_ENGINE_GAP}
    session_announce(session_id=session.id, topic=WebhookTopic.TRAINING_DRIFT, data=data)


def _is_due(session: Session, rule: AlertRule, subject: str, step: int) -> bool:
    """Whether the rule may be raised again: one that comes and goes is told once in AGAIN_AFTER
    steps.
    """
    if rule is AlertRule.EPISODES_DROPPED:  # which names no step
        since = timezone.now() - DROPPED_AGAIN
        return not session.alerts.filter(rule=rule, at__gt=since).exists()
    return not session.alerts.filter(
        rule=rule, subject=subject, step__gt=step - AGAIN_AFTER
    ).exists()


def _standing(session: Session) -> QuerySet[Alert]:
    of_steps = [*RULES, AlertRule.METRIC_RULE, AlertRule.EPISODES_DROPPED]
    return Alert.objects.filter(session=session, rule__in=of_steps, over_at=None)
