"""What the reconciler writes down of a session without moving it to another state."""

import logging
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from console.live.services import event_record
from console.scheduling.launchers.protocol import Launcher
from console.sessions.models import Alert, Session
from console.sessions.raised_alerts import alert_raise, alerts_close
from console.sessions.states import ENDED, Desired
from console.sessions.transitions import session_announce
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.sessions import SessionState
from tinkerscript.wire.webhooks import WebhookTopic

log = logging.getLogger(__name__)

WAIT_NOTED_S = 5.0  # how often the record of a runtime that waits for a slot is renewed
# so long a launcher may be away, or a runtime slow to end, before the session's record says so
AWAY_NOTED_S = 10.0
AWAY_ALERT_S = 300.0  # and so long before a person is told
AWAY = "launcher"  # what the alert is about
ADDRESS_OF_OBJECT = re.compile(r"0x[0-9a-f]+")  # in the texts of some errors, another each time


def waiting_note(session: Session, reason: str, now: datetime) -> None:
    """The engine has no slot for it yet: no progress is expected meanwhile, and the session's
    record shows why.
    """
    phase = ADDRESS_OF_OBJECT.sub("0x", reason)[:200]
    noted_at = session.progress_at or session.state_since
    if phase == session.phase and now - noted_at < timedelta(seconds=WAIT_NOTED_S):
        return
    held = Session.objects.filter(
        id=session.id, state=session.state, lease_sha256=session.lease_sha256
    )
    if held.update(progress_at=now, phase=phase, updated_at=now) and phase != session.phase:
        data = {"from": session.state, "to": session.state, "phase": phase, "reason": ""}
        event_record(session_id=session.id, kind=EventKind.STATE, data=data)


def suspend_request(session: Session, reason: str) -> None:
    """Ask a ready session to suspend itself."""
    with transaction.atomic():
        # An episode that began meanwhile changed last_activity_at: then the session is not idle
        # after all.
        ordered = Session.objects.filter(
            id=session.id,
            state=SessionState.READY,
            desired=Desired.RUN,
            last_activity_at=session.last_activity_at,
        ).update(desired=Desired.SUSPEND)
        if ordered:
            event_record(
                session_id=session.id,
                kind=EventKind.EVENT,
                data={"name": "suspend_requested", "reason": reason, "state": session.state},
            )


def stuck_announce(session: Session, cause: str) -> None:
    """Tell the project that the session made no progress and its runtime is replaced, once for each
    runtime.
    """
    subject = f"restart {session.restarts}"
    if session.alerts.filter(rule=AlertRule.STUCK, subject=subject, over_at=None).exists():
        return  # it is slow to end: the reconciler comes by again
    data = {"session_id": session.id, "state": session.state, "cause": cause}
    session_announce(session_id=session.id, topic=WebhookTopic.SESSION_STUCK, data=data)
    with transaction.atomic():
        alert_raise(session=session, rule=AlertRule.STUCK, subject=subject, text=cause)
        # it takes their place
        alerts_close(session.alerts.filter(rule=AlertRule.STUCK).exclude(subject=subject))


def address_note(session: Session, launcher: Launcher) -> None:
    """Keep where the session's gateway is, once its heartbeats name a port. Raises
    LauncherUnavailable.

    The launcher says it, and requests go nowhere else: a heartbeat could name any address of the
    server's network.
    """
    port = session.gateway_port
    if port is None or session.launch_handle is None or session.address.endswith(f":{port}"):
        return
    address = launcher.address(session.launch_handle, port=port)
    held = Session.objects.filter(
        id=session.id, lease_sha256=session.lease_sha256, gateway_port=port
    )
    if held.update(address=address):
        session.address = address


@dataclass
class _Away:
    reason: str
    since: datetime
    noted: str = ""  # the reason that the record has


class AwayNotes:
    """The sessions of which a launcher could not say what became, or whose runtime does not end
    though it was killed.

    Nothing is done on a guess, so that only these words are seen: one line of the log and one event
    for each reason, and an alert when it lasts.
    """

    def __init__(self) -> None:
        self._away: dict[str, _Away] = {}

    def note(self, session_id: str, said: str, now: datetime) -> timedelta:
        """It could not be reconciled in this tick; returns for how long it has been so."""
        reason = ADDRESS_OF_OBJECT.sub("0x", said)
        away = self._away.setdefault(session_id, _Away("", now))
        if reason != away.reason:
            away.reason = reason
            log.warning(
                "%s could not be reconciled: %s", session_id, said, extra={"session_id": session_id}
            )
        lasted = now - away.since
        if lasted < timedelta(seconds=AWAY_NOTED_S):
            return lasted
        session = Session.objects.filter(id=session_id).first()
        if session is None:
            del self._away[session_id]
            return lasted
        if reason != away.noted:
            away.noted = reason
            data = {"name": "launcher_away", "reason": said[:400], "state": session.state}
            event_record(session_id=session_id, kind=EventKind.EVENT, data=data)
        # or its silence was, before
        is_told = session.alerts.filter(rule=AlertRule.STUCK, over_at=None).exists()
        if lasted >= timedelta(seconds=AWAY_ALERT_S) and not is_told:
            text = (
                f"For {lasted.total_seconds():.0f} s nothing could be done about its runtime: "
                f"{said}"
            )
            alert_raise(session=session, rule=AlertRule.STUCK, subject=AWAY, text=text)
        return lasted

    def over(self, session_id: str) -> None:
        """It was reconciled."""
        if self._away.pop(session_id, None) is not None:
            alerts_close(
                Alert.objects.filter(session_id=session_id, rule=AlertRule.STUCK, subject=AWAY)
            )

    def forget_ended(self) -> None:
        """Keep nothing in mind of sessions that ended and have no runtime left to end."""
        if not self._away:
            return
        held = ~Q(state__in=ENDED) | Q(launch_handle__isnull=False)
        known = set(Session.objects.filter(held, id__in=self._away).values_list("id", flat=True))
        self._away = {
            session_id: away for session_id, away in self._away.items() if session_id in known
        }
