"""What the reconciler writes down of a session without moving it to another state."""

from datetime import datetime, timedelta

from django.db import transaction

from console.live.services import event_record
from console.scheduling.launchers.protocol import Launcher
from console.sessions.alerts.services import alert_raise, alerts_close
from console.sessions.models import Session
from console.sessions.states import Desired
from console.sessions.transitions import session_announce
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

WAIT_NOTED_S = 5.0  # how often the record of a runtime that waits for a slot is renewed


def waiting_note(session: Session, reason: str, now: datetime) -> None:
    """The engine has no slot for it yet: no progress is expected meanwhile, and the session's record shows why."""
    phase = reason[:200]
    noted_at = session.progress_at or session.state_since
    if phase == session.phase and now - noted_at < timedelta(seconds=WAIT_NOTED_S):
        return
    held = Session.objects.filter(id=session.id, state=session.state, lease_sha256=session.lease_sha256)
    if held.update(progress_at=now, phase=phase) and phase != session.phase:
        data = {"from": session.state, "to": session.state, "phase": phase, "reason": ""}
        event_record(session_id=session.id, kind=EventKind.STATE, data=data)


def suspend_request(session: Session, reason: str) -> None:
    """Ask a ready session to suspend itself."""
    with transaction.atomic():
        # An episode that began meanwhile changed last_activity_at: then the session is not idle after all.
        ordered = Session.objects.filter(
            id=session.id, state=SessionState.READY, desired=Desired.RUN, last_activity_at=session.last_activity_at
        ).update(desired=Desired.SUSPEND)
        if ordered:
            event_record(
                session_id=session.id,
                kind=EventKind.EVENT,
                data={"name": "suspend_requested", "reason": reason, "state": session.state},
            )


def stuck_announce(session: Session, cause: str) -> None:
    """Tell the project that the session made no progress and its runtime is replaced, once for each runtime."""
    subject = f"restart {session.restarts}"
    if session.alerts.filter(rule=AlertRule.STUCK, subject=subject, over_at=None).exists():
        return  # it is slow to end: the reconciler comes by again
    data = {"session_id": session.id, "state": session.state, "cause": cause}
    session_announce(session_id=session.id, topic=WebhookTopic.SESSION_STUCK, data=data)
    with transaction.atomic():
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text=cause)
        alerts_close(session.alerts.filter(rule=AlertRule.STUCK).exclude(subject=subject))  # it takes their place


def address_note(session: Session, launcher: Launcher) -> None:
    """Keep where the session's gateway is, once its heartbeats name a port. Raises LauncherUnavailable.

    The launcher says it, and requests go nowhere else: a heartbeat could name any address of the server's network.
    """
    port = session.gateway_port
    if port is None or session.launch_handle is None or session.address.endswith(f":{port}"):
        return
    address = launcher.address(session.launch_handle, port=port)
    held = Session.objects.filter(id=session.id, lease_sha256=session.lease_sha256, gateway_port=port)
    if held.update(address=address):
        session.address = address
