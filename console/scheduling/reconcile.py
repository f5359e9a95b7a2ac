"""The reconciler: compares what sessions should be with what they are, and acts on the difference.

Level-triggered: every tick looks at everything anew, so that a lost event, a crash or a second reconciler costs
nothing. Moves are conditional, so that a tick that acts on an old view changes nothing.
"""

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from console.errors import Conflict
from console.scheduling import failures, liveness
from console.scheduling.absent_clients import absent_clients_give_way
from console.scheduling.draining import is_draining
from console.scheduling.launchers.launch import NotStarted, runtime_handle, runtime_launch
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable, SlowToEnd
from console.scheduling.launchers.warm import WarmRuntimes
from console.scheduling.leader import holder_new, leader_release, leader_renew
from console.scheduling.logs import log_keep, log_read
from console.scheduling.session_notes import AwayNotes, address_note, stuck_announce, suspend_request, waiting_note
from console.sessions.limits.devices import DevicesShort, devices_decide, devices_release, devices_sync
from console.sessions.limits.queue import queue_next, queue_waiting
from console.sessions.models import Session
from console.sessions.selectors import session_counts
from console.sessions.services import end_without_runtime
from console.sessions.states import Actor, Desired
from console.sessions.transitions import WITH_RUNTIME, session_move
from tinkerscript.wire.runtime import PHASE_PREEMPTED
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)

KILL_GRACE_S = 5.0
START_AGAIN_S = 3.0  # after a start for which an earlier runtime had to end first, and did not yet
PAUSE_S = 10.0  # after a gap this long between ticks the reconciler was stopped, not the runtimes
COLUMNS_READ = (
    "state", "desired", "phase", "restarts", "created_at", "state_since", "lease_sha256", "lease_expires_at",
    "launch_handle", "address", "gateway_port", "progress_at", "last_activity_at", "accounting", "config",
)  # fmt: skip


class Reconciler:
    """One reconciler. ``devices`` are those of this machine; ``disk_free`` returns the bytes left for runtimes.

    ``warm`` are runtimes that wait for a session.
    """

    def __init__(
        self,
        launcher: Launcher,
        *,
        devices: Sequence[str] = (),
        warm: WarmRuntimes | None = None,
        disk_free: Callable[[], int] = lambda: shutil.disk_usage(settings.DATA).free,
    ) -> None:
        self._launcher = launcher
        self._devices, self._warm = devices, warm
        self._devices_kept = 0  # for sessions before others in the queue that cannot start in this tick
        self._disk_free = disk_free
        self._holder = holder_new()
        self._last_tick: datetime | None = None
        self._tick_s = 0.0
        self._draining = self._leads = False
        self._judging_since = timezone.now()  # silence before this moment was ours: no runtime is blamed for it
        self._suspending_since: dict[str, datetime] = {}
        self._start_after: dict[str, tuple[datetime, str]] = {}  # until when it waits, and why
        self._away = AwayNotes()

    def reconcile_once(self) -> bool:
        """One tick; False when another reconciler leads. An error in one session does not keep it from the others."""
        now, began = timezone.now(), time.monotonic()
        if self._last_tick is None or now - self._last_tick > timedelta(seconds=PAUSE_S):
            self._judging_since = now
        self._last_tick = now
        if not leader_renew(holder=self._holder, now=now, tick_s=self._tick_s):
            self._leads = False
            if self._warm:
                self._warm.close()
            return False
        if not self._leads:
            if self._warm:
                self._warm.clear_predecessors()
            devices_sync(ids=self._devices)
            self._leads = True
        self._draining = is_draining()
        # One query for all: what a row says may be old by the time it is acted on, and then its move is refused.
        held = Q(state__in=WITH_RUNTIME) | Q(launch_handle__isnull=False)
        for session in Session.objects.filter(held).only(*COLUMNS_READ):
            self._guarded(self._reconcile, session)
        devices_release(known=self._devices)
        # A server where nothing waits computes no order twice a second.
        if not self._draining and Session.objects.filter(state=SessionState.QUEUED).exists():
            self._start_queued(now)
        if self._warm:
            self._keep_warm(self._warm)
        self._tick_s = time.monotonic() - began
        return True

    def _start_queued(self, now: datetime) -> None:
        """Start those for which there is room; if some still wait, sessions without a client make room."""
        self._devices_kept = 0
        taken = Session.objects.filter(state__in=WITH_RUNTIME).count()
        for session_id in queue_next(slots=settings.MAX_RUNTIMES - taken):
            self._guarded(self._start, session_id)
        absent_clients_give_way(now=now, judging_since=self._judging_since)

    def _keep_warm(self, warm: WarmRuntimes) -> None:
        """As many as the sessions leave room for; what has no session yet never takes one's place."""
        counts = session_counts()
        queued = queue_waiting() if counts[SessionState.QUEUED] else 0
        room = settings.MAX_RUNTIMES - sum(counts[state] for state in WITH_RUNTIME) - queued
        # Who waits needs the devices, and who loads the processors.
        others = queued + counts[SessionState.PROVISIONING] + counts[SessionState.LOADING]
        warm.keep(room=0 if self._draining else room, may_start=others == 0, known=self._devices)

    def close(self) -> None:
        """Let another reconciler lead. The runtimes run on, but for those that have no session."""
        if self._warm:
            self._warm.close()
        leader_release(holder=self._holder)

    def release_all(self, *, grace_s: float) -> None:
        """End every runtime because the server stops; their sessions go on when it comes back, before all others."""
        for session in Session.objects.filter(launch_handle__isnull=False):
            self._guarded(self._release, session, grace_s)

    def _release(self, session: Session, grace_s: float) -> None:
        self._end(session, grace_s=grace_s)
        running = session.state in {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}
        if running and session.desired == Desired.SUSPEND:
            self._move_suspended(session)
        elif running and session.desired == Desired.RUN:
            self._requeue(session, "the server was stopped", session.restarts, session.created_at)

    def _end(self, session: Session, *, grace_s: float) -> list[str]:
        """End its runtime; returns the last lines that it wrote."""
        lines = log_read(session, self._launcher)
        self._launcher.stop(runtime_handle(session), grace_s=grace_s)
        log_keep(session_id=session.id, lines=lines)
        return lines

    def _guarded(self, act: Callable[..., None], *arguments: object) -> None:
        session_id = arguments[0].id if isinstance(arguments[0], Session) else str(arguments[0])
        try:
            act(*arguments)
            self._away.over(session_id)
        except Conflict:
            pass  # its state changed after it was read: the next tick reads it again
        except LauncherUnavailable as away:
            # The launcher could not say what became of its runtime: nothing is done on a guess.
            self._away.note(session_id, str(away), timezone.now())
        except Exception:
            log.exception("a session could not be reconciled: %s", session_id)

    def _reconcile(self, session: Session) -> None:
        if session.state in {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}:
            self._running(session)
        elif session.state == SessionState.STOPPING:
            self._stopping(session)
        else:
            # It should not run: it failed or ended while its process was still there.
            self._end(session, grace_s=KILL_GRACE_S)
            Session.objects.filter(id=session.id, state=session.state).update(launch_handle=None)

    def _running(self, session: Session) -> None:
        now = timezone.now()
        if session.desired == Desired.STOP:
            self._move(session, SessionState.STOPPING, reason="stop requested")
            return
        status = self._launcher.inspect(runtime_handle(session))
        if session.desired == Desired.SUSPEND and session.state == SessionState.READY:
            self._suspending(session, alive=status.state == "running", now=now)
            return
        self._suspending_since.pop(session.id, None)
        if status.state == "running":
            address_note(session, self._launcher)
        if not status.is_alive:
            code = "" if status.code is None else f" with code {status.code}"
            why = f": {status.reason}" if status.reason else ""
            self._recover(session, f"the runtime's process ended{code}{why}", "exited")
        elif status.state == "waiting":
            waiting_note(session, status.reason, now)
        elif self._stuck_cause(session, now):
            session.refresh_from_db()  # it may have moved since this tick read it
            if cause := self._stuck_cause(session, now):
                stuck_announce(session, cause)
                self._recover(session, cause, "stuck")
        elif self._draining and session.state == SessionState.READY and session.desired == Desired.RUN:
            suspend_request(session, "the server is being drained")
        elif liveness.is_idle(session, now=now):
            suspend_request(session, "idle")

    def _stuck_cause(self, session: Session, now: datetime) -> str | None:
        return liveness.stuck_cause(session, now=now, judging_since=self._judging_since)

    def _recover(self, session: Session, cause: str, kind: str) -> None:
        """Kill what is left and launch again, or give up when it keeps dying without a completed step."""
        session.refresh_from_db(fields=["phase"])  # its last heartbeat may have come after this tick read it
        preempted = session.phase.startswith(PHASE_PREEMPTED)
        lines = self._end(session, grace_s=0)  # before it is counted: what is slow to end comes here again
        failures.restart_count(cause="preempted" if preempted else kind)
        log.warning("%s: %s", session.id, cause, extra={"session_id": session.id})
        if preempted:  # however often machines are taken away, the session itself did not fail
            self._requeue(session, f"its machine was taken away: {cause}", session.restarts)
            return
        if session.restarts < settings.MAX_RESTARTS:
            self._requeue(session, cause, session.restarts + 1)
            return
        failure = failures.runtime_lost(cause=cause, restarts=session.restarts, lines=lines)
        self._move(session, SessionState.FAILED, reason=cause, failure=failure, launch_handle=None)

    def _requeue(self, session: Session, reason: str, restarts: int, since: datetime | None = None) -> None:
        fields: dict[str, Any] = {} if since is None else {"state_since": since}
        self._move(session, SessionState.QUEUED, reason=reason, restarts=restarts, launch_handle=None, **fields)

    def _suspending(self, session: Session, *, alive: bool, now: datetime) -> None:
        since = self._suspending_since.setdefault(session.id, now)
        if alive and not liveness.is_overdue(session, since=since, now=now):
            return
        self._end(session, grace_s=KILL_GRACE_S)
        self._suspending_since.pop(session.id, None)
        self._move_suspended(session)

    def _move_suspended(self, session: Session) -> None:
        self._move(session, SessionState.SUSPENDED, reason="its runtime ended as asked", restarts=0, launch_handle=None)

    def _stopping(self, session: Session) -> None:
        status = self._launcher.inspect(runtime_handle(session)) if session.launch_handle else None
        alive = status is not None and status.state == "running"
        if alive and not liveness.is_overdue(session, since=session.state_since, now=timezone.now()):
            return
        if session.launch_handle:
            self._end(session, grace_s=KILL_GRACE_S)
        reason = "the runtime did not end in time and was killed" if alive else "the runtime ended"
        self._move(session, SessionState.STOPPED, reason=reason, launch_handle=None)

    def _start(self, session_id: str) -> None:
        session = Session.objects.get(id=session_id)
        if session.desired == Desired.STOP:
            self._start_after.pop(session_id, None)
            self._move(session, end_without_runtime(session.id, SessionState.QUEUED), reason="stop requested")
            return
        devices_decide(session)
        now = timezone.now()
        not_before, slow = self._start_after.get(session_id, (now, ""))
        if now < max(liveness.restart_not_before(session), not_before):
            self._devices_kept += session.devices or 0  # its slot and its devices are kept for it meanwhile
            if slow:
                raise SlowToEnd(slow)
            return
        free = self._disk_free()
        if free < settings.DISK_FLOOR_BYTES:
            self._refuse_disk_full(session, free)
            return
        try:
            runtime_launch(
                session, launcher=self._launcher, warm=self._warm, known=self._devices, kept=self._devices_kept
            )
            self._start_after.pop(session_id, None)
        except SlowToEnd as error:  # nothing was started: no restart is counted
            session.refresh_from_db()
            self._start_after[session_id] = now + timedelta(seconds=START_AGAIN_S), str(error)
            self._requeue(session, str(error), session.restarts)
            raise
        except NotStarted as error:
            session.refresh_from_db()
            self._recover(session, str(error), "not_started")
        except DevicesShort as short:
            if self._warm:
                self._warm.give_way()  # in the next tick it has their devices
            # What is free is kept for it: who comes later and needs less must not overtake it for ever.
            self._devices_kept += session.devices or 0
            waiting_note(session, str(short), timezone.now())

    def _refuse_disk_full(self, session: Session, free_bytes: int) -> None:
        """A session that ran before waits for free space and continues from its state; a new one fails at once."""
        needed = f"{settings.DISK_FLOOR_BYTES >> 20} MiB"
        if session.launcher:
            reason = f"the server's disk is nearly full: waits for {needed} of free space"
            waiting_note(session, reason, timezone.now())
            return
        failure = failures.disk_full(free_bytes=free_bytes, needed=needed)
        self._move(session, SessionState.FAILED, reason=failure["cause"], failure=failure)

    def _move(self, session: Session, target: SessionState, *, reason: str, **fields: Any) -> None:
        session_move(
            session_id=session.id,
            source=SessionState(session.state),
            target=target,
            actor=Actor.RECONCILER,
            reason=reason,
            **fields,
        )
