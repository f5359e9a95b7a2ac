"""Raising alerts, once each until they are over, with what a person can do about each."""

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console.live.services import event_note
from console.sessions.models import Alert, Session
from console.sessions.states import ENDED
from console.webhooks.services import event_announce
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.webhooks import WebhookTopic

MAX_TEXT = 400
MOVES = (AlertRule.FAILED, AlertRule.RESTARTED)  # which the record has as moves of the session
# What to do, where whoever raises the alert has nothing that fits better.
HINTS: dict[AlertRule, str] = {
    AlertRule.FAILED: "Read the cause on the run's page. Once it is gone, start a new session from "
    "its last state.",
    AlertRule.RESTARTED: "Nothing, if steps go on. If it restarts again, read the end of its log "
    "on the Health page.",
    AlertRule.STUCK: "Its runtime is replaced. If it happens again, read the stacks on the Health "
    "page.",
    AlertRule.CHECKPOINT_FAILED: "Free space in the object store if it is full, then save a "
    "checkpoint again.",
    AlertRule.DISK: "Free space there: delete checkpoints that nobody needs, or enlarge the disk.",
    AlertRule.BUDGET: "At its limit the session saves a model and stops. Raise the limit if it "
    "should go on.",
    AlertRule.TRUNCATED: "Raise max_tokens, or ask for shorter answers.",
    AlertRule.EQUAL_REWARDS: "Raise the temperature or grpo_n, choose tasks that are neither "
    "always solved nor never,"
    " or reward parts of the way.",
    AlertRule.EPISODES_DROPPED: "End each episode soon after it began, or raise max_staleness.",
    AlertRule.REWARD_COLLAPSE: "Compare answers before and after the fall. Lower learning_rate or "
    "raise kl_coef, and"
    " train again from a checkpoint before it.",
    AlertRule.ENTROPY_COLLAPSE: "Stop if the reward is good. Else lower learning_rate, or set "
    "entropy_target.",
    AlertRule.LENGTH_BLOWUP: "Look whether the longer answers earn more. Set overlong_buffer if "
    "they do not.",
    AlertRule.KL: "Lower learning_rate, or set kl_stop.",
    AlertRule.ENGINE_GAP: "Compare log-probabilities on an episode's tokens. Set dtype float32, or "
    "engine_correction.",
    AlertRule.METRIC_RULE: "Look at the run's charts at that step.",
}


def alert_raise(
    *,
    session: Session,
    rule: AlertRule,
    text: str,
    subject: str = "",
    step: int | None = None,
    hint: str = "",
) -> None:
    """Raise an alert, and tell record and webhooks, unless the same one about ``subject`` is not
    over yet.

    ``hint``: what to do; by default that of the rule. Of a session that has ended none but its
    failure is raised: nothing would say that it is over.
    """
    with transaction.atomic():
        # Held until the commit: the session does not end meanwhile, and two processes do not raise
        # the same alert.
        held = Session.objects.select_for_update(no_key=True).filter(id=session.id)
        row = held if rule is AlertRule.FAILED else held.exclude(state__in=ENDED)
        if row.values_list("id", flat=True).first() is None:
            return
        words = {"text": text[:MAX_TEXT], "hint": (hint or HINTS[rule])[:MAX_TEXT], "step": step}
        _alert, is_new = Alert.objects.get_or_create(
            session_id=session.id, rule=rule, subject=subject, over_at=None, defaults=words
        )
        if not is_new:
            return
        data = {"rule": rule, **words}
        if rule not in MOVES:
            event_note(session.id, "alert", **data)
        project = Session.objects.filter(id=session.id).values("project_id")[:1]
        announced = {"session_id": session.id, **data}
        event_announce(project_id=project, topic=WebhookTopic.ALERT_RAISED, data=announced)


def alerts_close(alerts: QuerySet[Alert]) -> None:
    """What these say is no longer so."""
    alerts.filter(over_at=None).update(over_at=timezone.now())


def checkpoint_alert(*, session: Session, kind: str, reason: str) -> None:
    """A checkpoint of this kind could not be saved; over once a later one of the kind is."""
    text = f"A {kind} checkpoint could not be saved: {reason}"
    alert_raise(session=session, rule=AlertRule.CHECKPOINT_FAILED, subject=kind, text=text)
