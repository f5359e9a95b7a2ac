"""Whether a session's runtime has ended, is stuck, idle or late. The time is an argument, so that
tests need not wait.
"""

from datetime import datetime, timedelta

from django.conf import settings

from console.scheduling.launchers.protocol import RuntimeStatus
from console.sessions.models import Session
from console.sessions.states import Desired
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import PHASE_SERVING, PHASE_TINKER, PHASE_WAITING
from tinkerscript.wire.sessions import SessionState

MAX_RESTART_WAIT_S = 30.0
# of a session made before it was an option
IDLE_SUSPEND_S = SessionConfig.model_fields["idle_suspend_s"].default


def ended_cause(
    session: Session, status: RuntimeStatus, *, now: datetime, judging_since: datetime
) -> str | None:
    """Why a runtime is gone, or None. A lost one is not, for as long as it may hold its lease."""
    if not status.is_alive:
        code = "" if status.code is None else f" with code {status.code}"
        why = f": {status.reason}" if status.reason else ""
        return f"the runtime's process ended{code}{why}"
    leased_until = max(session.lease_expires_at or session.state_since, judging_since)
    is_leased = now - leased_until <= timedelta(seconds=settings.LEASE_S)
    if status.state == "running" and status.reason and not is_leased:
        return f"the runtime is lost: {status.reason}"
    return None


def stuck_cause(session: Session, *, now: datetime, judging_since: datetime) -> str | None:
    """Why a runtime whose process is alive must be replaced all the same, or None.

    ``judging_since`` is when we began to listen: earlier silence is ours.
    """
    state = SessionState(session.state)
    if not session.lease_sha256:
        return (
            "the runtime's lease was revoked: another program has the port where it looks for "
            "the server"
        )
    if state != SessionState.PROVISIONING:
        silent_since = max(session.lease_expires_at or session.state_since, judging_since)
        if now - silent_since > timedelta(seconds=settings.SILENCE_GRACE_S):
            return (
                "the runtime's heartbeat stayed away: its lease ended "
                f"{_ago(session.lease_expires_at, now)}"
            )
    if state == SessionState.READY and session.gateway_port and not session.address:
        unfound_since = max(session.state_since, judging_since)
        if now - unfound_since > timedelta(seconds=settings.SILENCE_GRACE_S):
            return (
                f"the runtime does not listen on port {session.gateway_port}, which its "
                "heartbeat names"
            )
    still_since = max(
        session.progress_at or session.state_since, session.state_since, judging_since
    )
    deadline_s = settings.PROGRESS_DEADLINES_S[state]
    if now - still_since <= timedelta(seconds=deadline_s):
        return None
    doing = f" ({session.phase})" if session.phase else ""
    return f"the runtime made no progress for {deadline_s:.0f} s while {state}{doing}"


def is_idle(session: Session, *, now: datetime) -> bool:
    """Whether a ready session has been without work for as long as its configuration allows."""
    if session.state != SessionState.READY or session.desired != Desired.RUN:
        return False
    works = session.phase and not session.phase.startswith(
        (PHASE_WAITING, PHASE_SERVING, PHASE_TINKER)
    )
    if works or session.accounting.get("open", 0):
        return False
    idle_s = session.config.get("idle_suspend_s", IDLE_SUSPEND_S)
    since = max(session.last_activity_at or session.state_since, session.state_since)
    if now - since <= timedelta(seconds=idle_s):
        return False
    return not session.checkpoints.filter(state__in=["requested", "uploading"]).exists()


def is_overdue(session: Session, *, since: datetime, now: datetime) -> bool:
    """Whether a runtime that was asked to end at ``since`` has not ended and makes no progress
    towards it.
    """
    moved_at = max(session.progress_at or since, since)
    return now - moved_at > timedelta(seconds=settings.STOP_GRACE_S) or now - since > timedelta(
        seconds=settings.STOP_DEADLINE_S
    )


def restart_not_before(session: Session) -> datetime:
    """When a queued session may start: at once, or after 1, 3, 7, 15... s when its runtime keeps
    dying.
    """
    wait_s = min(2 ** max(0, session.restarts - 1) - 1, MAX_RESTART_WAIT_S)
    return session.state_since + timedelta(seconds=wait_s)


def _ago(moment: datetime | None, now: datetime) -> str:
    return "before it began" if moment is None else f"{(now - moment).total_seconds():.0f} s ago"
