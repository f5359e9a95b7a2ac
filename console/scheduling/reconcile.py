"""The reconciler: compares what sessions should be with what they are, and acts on the difference.

Level-triggered: every tick looks at everything anew, so that a lost event, a crash or a second reconciler costs
nothing. Moves are conditional, so that a tick that acts on an old view changes nothing.
"""

import logging
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from console.errors import Conflict
from console.live.services import event_record
from console.scheduling import verdicts
from console.scheduling.draining import is_draining
from console.scheduling.launchers.protocol import Launcher, LauncherAway
from console.scheduling.leader import holder_new, leader_release, leader_renew
from console.sessions.leases import lease_issue
from console.sessions.models import Session
from console.sessions.moves import WITH_RUNTIME, session_move
from console.sessions.queue import queue_next
from console.sessions.states import Actor
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)

LOG_LINES = 40
KILL_GRACE_S = 5.0
PAUSE_S = 10.0  # a gap this long between ticks means that we, not the runtimes, were away
LOOKED_AT = (
    "state", "desired", "phase", "restarts", "created_at", "state_since", "lease_sha256", "lease_expires_at",
    "launch_handle", "progress_at", "last_activity_at", "accounting", "config",
)  # fmt: skip
WAIT_NOTED_S = 5.0  # how often the record of a runtime that waits for a place is renewed


class Reconciler:
    """One reconciler. ``disk_free`` answers the bytes left for runtimes."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        disk_free: Callable[[], int] = lambda: shutil.disk_usage(settings.DATA).free,
    ) -> None:
        self._launcher = launcher
        self._disk_free = disk_free
        self._holder = holder_new()
        self._last_tick: datetime | None = None
        self._tick_s = 0.0
        self._draining = False
        self._judging_since = timezone.now()  # no runtime answers for time in which nobody could hear it
        self._suspending_since: dict[str, datetime] = {}

    def reconcile_once(self) -> bool:
        """One tick; False when another reconciler leads. An error in one session does not keep it from the others."""
        now, began = timezone.now(), time.monotonic()
        if self._last_tick is None or now - self._last_tick > timedelta(seconds=PAUSE_S):
            self._judging_since = now
        self._last_tick = now
        if not leader_renew(holder=self._holder, now=now, tick_s=self._tick_s):
            return False
        self._draining = is_draining()
        # One query for all: what a row says may be old by the time it is acted on, and then its move is refused.
        held = Q(state__in=WITH_RUNTIME) | Q(launch_handle__isnull=False)
        for session in Session.objects.filter(held).only(*LOOKED_AT):
            self._guarded(self._look_at, session)
        taken = Session.objects.filter(state__in=WITH_RUNTIME).count()
        places = 0 if self._draining else settings.MAX_RUNTIMES - taken
        for session_id in queue_next(places=places):
            self._guarded(self._start, session_id)
        self._tick_s = time.monotonic() - began
        return True

    def close(self) -> None:
        """Let another reconciler lead. The runtimes run on."""
        leader_release(holder=self._holder)

    def release_all(self, *, grace_s: float) -> None:
        """End every runtime because the server stops; their sessions go on when it comes back, before all others."""
        for session in Session.objects.filter(launch_handle__isnull=False):
            self._guarded(self._release, session, grace_s)

    def _release(self, session: Session, grace_s: float) -> None:
        self._launcher.stop(session.launch_handle, grace_s=grace_s)
        running = session.state in {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}
        if running and session.desired == "suspend":
            self._move_suspended(session)
        elif running and session.desired == "run":
            self._requeue(session, "the server was stopped", session.restarts, session.created_at)

    def _guarded(self, act: Callable[..., None], *arguments: object) -> None:
        try:
            act(*arguments)
        except Conflict:
            # it moved while we looked: the next tick sees how it is now
            pass
        except LauncherAway as away:
            # Nothing is known of its runtime, so nothing is done about it.
            log.warning("%s could not be reconciled: %s", arguments[0], away)
        except Exception:
            log.exception("a session could not be reconciled: %s", arguments[0])

    def _look_at(self, session: Session) -> None:
        if session.state in {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}:
            self._running(session)
        elif session.state == SessionState.STOPPING:
            self._stopping(session)
        else:
            # It should not run: it failed or ended while its process was still there.
            self._launcher.stop(session.launch_handle, grace_s=KILL_GRACE_S)
            Session.objects.filter(id=session.id, state=session.state).update(launch_handle=None)

    def _running(self, session: Session) -> None:
        now = timezone.now()
        if session.desired == "stop":
            self._move(session, SessionState.STOPPING, reason="stop requested")
            return
        sight = self._launcher.inspect(session.launch_handle)
        if session.desired == "suspend" and session.state == SessionState.READY:
            self._suspending(session, alive=sight.state == "running", now=now)
            return
        self._suspending_since.pop(session.id, None)
        if not sight.is_alive:
            code = "" if sight.code is None else f" with code {sight.code}"
            why = f": {sight.reason}" if sight.reason else ""
            self._recover(session, f"the runtime's process ended{code}{why}")
        elif sight.state == "waiting":
            self._note_waiting(session, sight.reason, now)
        elif self._stuck_cause(session, now):
            session.refresh_from_db()  # it may have moved since this tick read it
            if cause := self._stuck_cause(session, now):
                self._recover(session, cause)
        elif self._draining and session.state == SessionState.READY and session.desired == "run":
            self._order_suspend(session, "the server is being drained")
        elif verdicts.is_idle(session, now=now):
            self._order_suspend(session, "idle")

    def _stuck_cause(self, session: Session, now: datetime) -> str | None:
        return verdicts.stuck_cause(session, now=now, judging_since=self._judging_since)

    def _recover(self, session: Session, cause: str) -> None:
        """Kill what is left and launch again, or give up when it keeps dying without a completed step."""
        tail = "\n".join(self._launcher.logs(session.launch_handle, lines=LOG_LINES))
        log.warning("%s: %s", session.id, cause, extra={"session_id": session.id})
        self._launcher.stop(session.launch_handle, grace_s=0)
        if session.restarts < settings.MAX_RESTARTS:
            self._requeue(session, cause, session.restarts + 1)
            return
        failure = {
            "code": "runtime_lost",
            "cause": f"{cause}, after {session.restarts} restarts without a completed step. Its last lines:\n{tail}",
            "hint": "Read the last lines of the runtime's log. Start a new session once their cause is gone.",
        }
        self._move(session, SessionState.FAILED, reason=cause, failure=failure, launch_handle=None)

    def _requeue(self, session: Session, reason: str, restarts: int, since: datetime | None = None) -> None:
        fields = {} if since is None else {"state_since": since}
        self._move(session, SessionState.QUEUED, reason=reason, restarts=restarts, launch_handle=None, **fields)

    def _note_waiting(self, session: Session, reason: str, now: datetime) -> None:
        """There is no place for it yet: no progress is asked of it meanwhile, and its user sees why."""
        phase = reason[:200]
        noted_at = session.progress_at or session.state_since
        if phase == session.phase and now - noted_at < timedelta(seconds=WAIT_NOTED_S):
            return
        held = Session.objects.filter(id=session.id, state=session.state, lease_sha256=session.lease_sha256)
        if held.update(progress_at=now, phase=phase) and phase != session.phase:
            data = {"from": session.state, "to": session.state, "phase": phase, "reason": ""}
            event_record(session_id=session.id, kind=EventKind.STATE, data=data)

    def _order_suspend(self, session: Session, reason: str) -> None:
        with transaction.atomic():
            # An episode that began meanwhile changed last_activity_at: then the session is not idle after all.
            ordered = Session.objects.filter(
                id=session.id, state=SessionState.READY, desired="run", last_activity_at=session.last_activity_at
            ).update(desired="suspend")
            if ordered:
                event_record(
                    session_id=session.id,
                    kind=EventKind.EVENT,
                    data={"name": "suspend_requested", "reason": reason, "state": session.state},
                )

    def _suspending(self, session: Session, *, alive: bool, now: datetime) -> None:
        since = self._suspending_since.setdefault(session.id, now)
        if alive and not verdicts.is_overdue(session, since=since, now=now):
            return
        self._suspending_since.pop(session.id, None)
        self._launcher.stop(session.launch_handle, grace_s=KILL_GRACE_S)
        self._move_suspended(session)

    def _move_suspended(self, session: Session) -> None:
        self._move(session, SessionState.SUSPENDED, reason="its runtime ended as asked", restarts=0, launch_handle=None)

    def _stopping(self, session: Session) -> None:
        now = timezone.now()
        sight = self._launcher.inspect(session.launch_handle) if session.launch_handle else None
        alive = sight is not None and sight.state == "running"
        if alive and not verdicts.is_overdue(session, since=session.state_since, now=now):
            return
        if session.launch_handle:
            self._launcher.stop(session.launch_handle, grace_s=KILL_GRACE_S)
        reason = "the runtime did not end in time and was killed" if alive else "the runtime ended"
        self._move(session, SessionState.STOPPED, reason=reason, launch_handle=None)

    def _start(self, session_id: str) -> None:
        session = Session.objects.get(id=session_id)
        if session.desired == "stop":
            self._move(session, SessionState.CANCELLED, reason="stop requested")
            return
        if timezone.now() < verdicts.restart_not_before(session):
            return  # its place is kept for it meanwhile
        free = self._disk_free()
        if free < settings.DISK_FLOOR_BYTES:
            self._no_room(session, free)
            return
        self._launch(session)

    def _no_room(self, session: Session, free_bytes: int) -> None:
        """A session that ran before waits for room and goes on with what it has; a new one has nothing to lose."""
        needed = f"{settings.DISK_FLOOR_BYTES >> 20} MiB"
        if session.launcher:
            self._note_waiting(session, f"the server's disk is nearly full: waits for {needed} of room", timezone.now())
            return
        failure = {
            "code": "disk_full",
            "cause": f"{free_bytes >> 20} MiB are free where runtimes keep their state, {needed} needed to start one.",
            "hint": f"Free space on the disk of {settings.DATA}, then start a new session.",
        }
        self._move(session, SessionState.FAILED, reason=failure["cause"], failure=failure)

    def _launch(self, session: Session) -> None:
        launcher = self._launcher
        folder = settings.DATA / "runtimes" / session.id
        plan = launcher.plan(session_id=session.id, folder=folder)
        with transaction.atomic():
            self._move(
                session,
                SessionState.PROVISIONING,
                reason="a place is free" if not session.restarts else f"restart {session.restarts}",
                launcher=launcher.name,
                launch_handle=plan,
                progress=0,
                progress_at=None,
            )
            token = lease_issue(session=session)
        environment = {
            "TINKERSCRIPT_SERVER_URL": settings.RUNTIME_SERVER_URL,
            "TINKERSCRIPT_LEASE": token,
            "TINKERSCRIPT_RUNTIME_DIR": str(folder),
        }
        try:
            handle = launcher.start(plan, environment=environment)
        except OSError as error:
            session.refresh_from_db()
            self._recover(session, f"the runtime could not be started: {error}")
            return
        Session.objects.filter(id=session.id, lease_sha256=session.lease_sha256).update(launch_handle=handle)

    def _move(self, session: Session, target: SessionState, *, reason: str, **fields: object) -> None:
        session_move(
            session_id=session.id,
            source=SessionState(session.state),
            target=target,
            actor=Actor.RECONCILER,
            reason=reason,
            **fields,
        )
