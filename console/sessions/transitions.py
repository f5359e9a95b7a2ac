"""The one way in which a session's state changes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from console.errors import Conflict
from console.live.services import event_note, event_record
from console.sessions.models import Alert, Checkpoint, EpisodeRecord, Session
from console.sessions.raised_alerts import alert_raise, alerts_close
from console.sessions.states import UNWRITTEN, WITH_RUNTIME, Actor, is_allowed
from console.users.models import Project, User
from console.webhooks.services import event_announce
from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.reading.trajectories import EpisodeFate
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

# Alerts that a step ends, or a time in which all went well; where neither came, its suspension.
OF_RUNTIMES = (AlertRule.STUCK, AlertRule.RESTARTED)
SESSION_ENDED = "session_ended"  # why an episode was abandoned
NO_LEASE = {"lease_sha256": "", "lease_expires_at": None, "address": "", "gateway_port": None}


def session_move(
    *,
    session_id: str,
    source: SessionState,
    target: SessionState,
    actor: Actor,
    phase: str = "",
    deadline_s: float | None = None,
    reason: str = "",
    lease_sha256: str | None = None,
    **fields: Any,
) -> None:
    """Move a session from ``source`` to ``target``, set ``fields`` with it and record the event:
    all or nothing.

    ``deadline_s``: how long ``phase`` may go without progress, where its runtime says so.
    ``lease_sha256`` makes it hold only while that lease is the session's; a move to a state without
    a runtime ends the lease. With the session's end its alerts are over. Raises Conflict when the
    table does not allow the move, or when the session is not (or no longer) as expected.
    """
    if not is_allowed(source, target, actor):
        raise Conflict(f"The {actor} may not move a session from {source} to {target}.")
    expected = {"id": session_id, "state": source}
    if lease_sha256 is not None:
        expected["lease_sha256"] = lease_sha256
    now = timezone.now()
    changes: dict[str, Any] = {
        "state": target,
        "phase": phase,
        "state_since": now,
        "updated_at": now,
    }
    if source in WITH_RUNTIME and target is SessionState.QUEUED:
        changes["restarts_ever"] = F("restarts_ever") + 1
    if target not in WITH_RUNTIME:
        changes |= NO_LEASE
    with transaction.atomic():
        moved = Session.objects.filter(**expected).update(**(changes | fields))
        if moved != 1:
            raise Conflict(
                f"The session is no longer {source}.", hint="Read it again and decide anew."
            )
        if source in WITH_RUNTIME and target not in (WITH_RUNTIME | {SessionState.QUEUED}):
            _slot_freed(session_id, now)
        told: dict[str, str | float] = {
            "from": source,
            "to": target,
            "phase": phase,
            "reason": reason,
        }
        told |= {} if deadline_s is None else {"deadline_s": deadline_s}
        event_record(session_id=session_id, kind=EventKind.STATE, data=told)
        data = {"session_id": session_id, "from": source, "to": target, "reason": reason}
        session_announce(session_id=session_id, topic=WebhookTopic.SESSION_STATE, data=data)
        if target is SessionState.SUSPENDED:  # how earlier runtimes ended is over
            ended = Alert.objects.filter(session_id=session_id, rule__in=OF_RUNTIMES)
            alerts_close(ended)
        if target.is_terminal:
            checkpoints_fail(
                session_id=session_id, reason=f"The session ended ({target}) before it was written."
            )
            alerts_close(Alert.objects.filter(session_id=session_id))
            open_episodes_end(session_id=session_id)
        if target is SessionState.FAILED:
            _failure_tell(session_id, reason, fields.get("failure") or {})


def _failure_tell(session_id: str, reason: str, failure: Mapping[str, Any]) -> None:
    """Tell webhooks that the session failed, and raise the alert, which stands until the session is
    deleted.
    """
    cause = failure.get("cause", reason)
    data = {"session_id": session_id, "code": failure.get("code", ""), "cause": cause}
    session_announce(session_id=session_id, topic=WebhookTopic.SESSION_FAILED, data=data)
    session = Session.objects.only("id").get(id=session_id)
    text = cause or "No cause was given."
    alert_raise(session=session, rule=AlertRule.FAILED, text=text, hint=failure.get("hint", ""))


def _slot_freed(session_id: str, now: datetime) -> None:
    """From now on its person, or its project where it names none, is behind who waits in the
    queue.
    """
    project, person = Session.objects.values_list("project_id", "person_id").get(id=session_id)
    owner = Project.objects.filter(id=project) if person is None else User.objects.filter(id=person)
    owner.update(slot_freed_at=now)


def open_episodes_end(*, session_id: str) -> None:
    """Episodes that were open when their session ended are abandoned: no runtime is left that could
    take their end.
    """
    counts = dict(Session.objects.values_list("accounting", flat=True).get(id=session_id))
    if left := counts.get("open", 0):
        reasons = dict(counts.get("abandoned_by_reason", {}))
        reasons[SESSION_ENDED] = reasons.get(SESSION_ENDED, 0) + left
        counts |= {
            "open": 0,
            "abandoned": counts.get("abandoned", 0) + left,
            "abandoned_by_reason": reasons,
        }
        Session.objects.filter(id=session_id).update(accounting=counts)
    EpisodeRecord.objects.filter(session_id=session_id, fate=EpisodeFate.OPEN).update(
        fate=EpisodeFate.ABANDONED, reason=SESSION_ENDED, ended_at=timezone.now().timestamp()
    )


def session_announce(*, session_id: str, topic: WebhookTopic, data: dict[str, Any]) -> None:
    """Tell those of the session's project who subscribed; it leaves when the surrounding
    transaction commits.
    """
    event_announce(
        project_id=Session.objects.filter(id=session_id).values("project_id")[:1],
        topic=topic,
        data=data,
    )


def checkpoints_fail(*, session_id: str, reason: str, ordered: bool = True) -> None:
    """Give up the checkpoints that are not written yet; with ``ordered=False`` only those that no
    user requested.
    """
    pending = Checkpoint.objects.filter(session_id=session_id, state__in=UNWRITTEN)
    if not ordered:
        pending = pending.filter(ordered=False)
    for checkpoint_id in list(pending.values_list("id", flat=True)):
        Checkpoint.objects.filter(id=checkpoint_id).update(
            state=CheckpointState.FAILED, failure=reason
        )
        checkpoint_failure_tell(session_id=session_id, checkpoint_id=checkpoint_id, reason=reason)


def checkpoint_failure_tell(*, session_id: str, checkpoint_id: str, reason: str) -> None:
    """Record that a checkpoint failed, and tell webhooks."""
    told = {"checkpoint_id": checkpoint_id, "reason": reason}
    event_note(session_id, "checkpoint_failed", **told)
    failed = {"session_id": session_id} | told
    session_announce(session_id=session_id, topic=WebhookTopic.CHECKPOINT_FAILED, data=failed)
