"""What a tick does with one session that has a runtime: by its state, what is wanted of it, and
what its launcher finds.
"""

from collections.abc import Mapping
from datetime import datetime

from django.utils import timezone

from console.scheduling import liveness
from console.scheduling.launch import runtime_handle
from console.scheduling.launchers.choice import session_launcher
from console.scheduling.launchers.protocol import Launcher
from console.scheduling.recovery import move, recover, requeue, runtime_end, runtime_log_keep
from console.scheduling.session_notes import (
    address_note,
    stuck_announce,
    suspend_request,
    waiting_note,
)
from console.sessions.models import Session
from console.sessions.states import WITH_RUNTIME, Desired
from tinkerscript.wire.sessions import SessionState

KILL_GRACE_S = 5.0
STARTED = {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}
COLUMNS_READ = (
    "state", "desired", "phase", "restarts", "created_at", "state_since", "lease_sha256", "lease_expires_at",
    "launch_handle", "address", "gateway_port", "progress_at", "last_activity_at", "accounting", "config",
    "place",
)  # fmt: skip


def running_list() -> list[Session]:
    """Those that have a runtime, or have ended or failed while one of theirs had not."""
    # At once for all: what a row says may be old by the time it is acted on, and then its move is
    # refused. Two queries, because for either condition alone there is an index, which passes by
    # what has ended.
    rows = Session.objects.only(*COLUMNS_READ)
    running = rows.filter(state__in=WITH_RUNTIME)
    launched = rows.filter(launch_handle__isnull=False).exclude(state__in=WITH_RUNTIME)
    return [*running, *launched]


class RunningSessions:
    """Looks after them one at a time, each by the one of ``launchers`` that is of its place."""

    def __init__(self, launchers: Mapping[str, Launcher]) -> None:
        self._launchers = launchers
        self._suspending_since: dict[str, datetime] = {}

    def forget(self) -> None:
        """Another reconciler may have looked after them meanwhile."""
        self._suspending_since.clear()

    def reconcile(self, session: Session, *, judging_since: datetime, drains: bool) -> None:
        """Its step of this tick. Raises Conflict, SlowToEnd, LauncherUnavailable."""
        if session.state == SessionState.STOPPING:
            self._stopping(session)
        elif session.state not in STARTED:
            # It should not run: it failed or ended while its process was still there.
            launcher = session_launcher(session, self._launchers)
            runtime_end(session, launcher=launcher, grace_s=KILL_GRACE_S)
            Session.objects.filter(id=session.id, state=session.state).update(launch_handle=None)
        elif session.desired == Desired.STOP:
            move(session, SessionState.STOPPING, reason="stop requested")
        else:
            self._started(session, judging_since, drains)

    def _stopping(self, session: Session) -> None:
        alive = False
        if session.launch_handle:
            launcher = session_launcher(session, self._launchers)
            alive = launcher.inspect(session.launch_handle).state == "running"
            since, now = session.state_since, timezone.now()
            if alive and not liveness.is_overdue(session, since=since, now=now):
                return
            runtime_end(session, launcher=launcher, grace_s=KILL_GRACE_S)
        reason = "the runtime did not end in time and was killed" if alive else "the runtime ended"
        move(session, SessionState.STOPPED, reason=reason, launch_handle=None)

    def _started(self, session: Session, judging_since: datetime, drains: bool) -> None:
        now, launcher = timezone.now(), session_launcher(session, self._launchers)
        status = launcher.inspect(runtime_handle(session))
        runs, ready = status.state == "running", session.state == SessionState.READY
        if ready and session.desired == Desired.SUSPEND:
            since = self._suspending_since.setdefault(session.id, now)
            if not runs or liveness.is_overdue(session, since=since, now=now):
                runtime_end(session, launcher=launcher, grace_s=KILL_GRACE_S)
                del self._suspending_since[session.id]
                _move_suspended(session)
            return
        self._suspending_since.pop(session.id, None)
        if runs:
            address_note(session, launcher)
        judged = {"now": now, "judging_since": judging_since}
        if ended := liveness.ended_cause(session, status, **judged):
            recover(session, ended, "exited", launcher=launcher)
        elif status.state == "waiting":
            waiting_note(session, status.reason, now)
        elif liveness.stuck_cause(session, **judged):
            session.refresh_from_db()  # it may have moved since this tick read it
            if stuck := liveness.stuck_cause(session, **judged):
                stuck_announce(session, stuck)
                recover(session, stuck, "stuck", launcher=launcher)
        elif drains and ready and session.desired == Desired.RUN:
            suspend_request(session, "the server is being drained")
        elif liveness.is_idle(session, now=now):
            suspend_request(session, "idle")


def _move_suspended(session: Session) -> None:
    reason = "its runtime ended as asked"
    move(session, SessionState.SUSPENDED, reason=reason, restarts=0, launch_handle=None)


def released_move(session: Session, lines: list[str]) -> None:
    """Move a session whose runtime ended, with these last lines, because the server stops."""
    if session.state in STARTED and session.desired == Desired.SUSPEND:
        _move_suspended(session)
    elif session.state in STARTED and session.desired == Desired.RUN:
        requeue(session, "the server was stopped", session.restarts, session.created_at)
    runtime_log_keep(session, lines)
