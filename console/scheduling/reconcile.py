"""The reconciler: compares what sessions should be with what they are, and acts on the difference.

Level-triggered: every tick looks at everything anew, so that a lost event, a crash or a second
reconciler costs nothing. Moves are conditional, so that a tick that acts on an old view changes
nothing. Of several reconcilers one leads (``leader.py``) and looks after the sessions of all
places.
"""

import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from console.errors import Conflict
from console.scheduling import liveness
from console.scheduling.absent_clients import absent_clients_give_way
from console.scheduling.instance import is_draining
from console.scheduling.launch import runtime_handle
from console.scheduling.launchers.choice import session_launcher
from console.scheduling.launchers.protocol import (
    Launcher,
    LauncherUnavailable,
    RuntimeStatus,
    SlowToEnd,
)
from console.scheduling.launchers.warm import WarmRuntimes
from console.scheduling.leader import LEASE_S, holder_new, leader_release, leader_renew
from console.scheduling.recovery import (
    move,
    recover,
    requeue,
    runtime_end,
    runtime_log_keep,
    runtime_stop,
    unended_give_up,
)
from console.scheduling.session_notes import (
    AwayNotes,
    address_note,
    stuck_announce,
    suspend_request,
    waiting_note,
)
from console.scheduling.starts import QueuedStarts
from console.sessions.limits.devices import devices_release, devices_sync
from console.sessions.limits.places import places_free
from console.sessions.limits.queue import queue_next, queue_waiting
from console.sessions.models import Session
from console.sessions.selectors import session_counts
from console.sessions.states import WITH_RUNTIME, Desired
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)

KILL_GRACE_S = 5.0
RELEASED_AT_ONCE = 16  # runtimes that end together when the server stops
# so long a runtime that was killed may keep its session's place
UNENDED_DEADLINE = timedelta(minutes=10)
IDLE_S = 4.0  # between ticks where nothing runs or waits; the lease lasts longer
PAUSE_S = 10.0  # after a gap this long between ticks the reconciler was stopped, not the runtimes
STARTED = {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}
COLUMNS_READ = (
    "state", "desired", "phase", "restarts", "created_at", "state_since", "lease_sha256", "lease_expires_at",
    "launch_handle", "address", "gateway_port", "progress_at", "last_activity_at", "accounting", "config",
    "place",
)  # fmt: skip


class Reconciler:
    """One reconciler, of what ``launcher`` starts here and those of ``elsewhere`` at the further
    places.

    ``devices`` are those of this machine; ``disk_free`` returns the bytes left for runtimes;
    ``warm`` are runtimes that wait for a session.
    """

    def __init__(
        self,
        launcher: Launcher,
        *,
        elsewhere: Mapping[str, Launcher] | None = None,
        devices: Sequence[str] = (),
        warm: WarmRuntimes | None = None,
        disk_free: Callable[[], int] = lambda: shutil.disk_usage(settings.DATA).free,
    ) -> None:
        self._launchers = {HERE: launcher, **(elsewhere or {})}
        self._devices, self._warm = devices, warm
        self._starts = QueuedStarts(self._launchers, known=devices, warm=warm, disk_free=disk_free)
        self._holder = holder_new()
        self._last_tick: datetime | None = None
        self._tick_s = self._led_at = 0.0
        self.is_idle = False
        self._draining = False
        # None: another leads. Silence before it was ours, and no runtime is blamed for it.
        self._led_since: datetime | None = None
        self._suspending_since: dict[str, datetime] = {}
        self._away = AwayNotes()

    def reconcile_once(self) -> bool:
        """One tick; False when another leads. An error in one session does not keep it from the
        others."""
        now, began = timezone.now(), time.monotonic()
        self.is_idle = False
        self._lead(now)
        if self._led_since is None:
            return False
        self._draining = is_draining()
        # At once for all: what a row says may be old by the time it is acted on, and then its move
        # is refused. Two queries, because for either condition alone there is an index, which
        # passes by what has ended.
        rows = Session.objects.only(*COLUMNS_READ)
        running = rows.filter(state__in=WITH_RUNTIME)
        launched = rows.filter(launch_handle__isnull=False).exclude(state__in=WITH_RUNTIME)
        sessions = [*running, *launched]
        for session in sessions:
            if self._lead_on():
                self._guarded(self._reconcile, session)
        if self._led_since is None:  # it was lost in the middle of them
            return False
        self._away.forget_ended()
        devices_release(known=self._devices)
        # A server where nothing waits computes no order twice a second.
        is_queued = Session.objects.filter(state=SessionState.QUEUED).exists()
        if is_queued and not self._draining:
            self._start_queued(now)
        if self._warm and self._led_since is not None:
            self._keep_warm(self._warm)
        self.is_idle = not (sessions or is_queued or (self._warm and self._warm.is_changing))
        self._tick_s = time.monotonic() - began
        return True

    def is_due(self) -> bool:
        """Whether to tick now: after a tick that found nothing to do, only for new work or after
        ``IDLE_S``."""
        if not self.is_idle or time.monotonic() - self._led_at >= IDLE_S:
            return True
        return Session.objects.filter(state__in=(SessionState.QUEUED, *WITH_RUNTIME)).exists()

    def _lead(self, now: datetime) -> None:
        """Whether this one leads until the next tick. Raises DatabaseError where nothing can be
        written."""
        leads = leader_renew(holder=self._holder, now=now, tick_s=self._tick_s)
        is_late = self._last_tick is None or now - self._last_tick > timedelta(seconds=PAUSE_S)
        self._last_tick = now
        if leads and self._led_since is None:
            if self._warm:
                self._warm.clear_predecessors()
            devices_sync(ids=self._devices)
        if leads and (is_late or self._led_since is None):
            # Another has led meanwhile: what is remembered of sessions may be untrue.
            self._suspending_since.clear()
            self._starts.forget()
            self._led_since = now
        if not leads:
            self._led_since = None
            if self._warm:
                self._warm.close()
        self._led_at = time.monotonic()

    def _lead_on(self) -> bool:
        """Whether it leads still, in a long tick: who is late is followed by another."""
        if time.monotonic() - self._led_at > LEASE_S / 3:
            self._lead(timezone.now())
        return self._led_since is not None

    def _start_queued(self, now: datetime) -> None:
        """Start those for which there is room; if some still wait, sessions without a client make
        room.
        """
        self._starts.begin_tick()
        for session_id in queue_next(slots=places_free()):
            if self._lead_on():
                self._guarded(self._starts.start, session_id)
        if self._led_since is not None:
            absent_clients_give_way(now=now, judging_since=self._led_since)

    def _keep_warm(self, warm: WarmRuntimes) -> None:
        """As many as the sessions leave room for; what has no session yet never takes one's
        place.
        """
        counts = session_counts(place=HERE)
        room = settings.MAX_RUNTIMES - sum(counts[state] for state in WITH_RUNTIME)
        # On a full server, where a long queue may stand, its order is not asked for.
        queued = queue_waiting() if counts[SessionState.QUEUED] and room > 0 else 0
        room -= queued
        # Who waits and who loads needs the processors.
        others = queued + counts[SessionState.PROVISIONING] + counts[SessionState.LOADING]
        warm.keep(room=0 if self._draining else room, may_start=others == 0)

    def close(self) -> None:
        """Let other reconcilers lead. The runtimes run on, but for those that have no session."""
        if self._warm:
            self._warm.close()
        leader_release(holder=self._holder)

    def release_all(self, *, grace_s: float) -> None:
        """End every runtime because the server stops, all in one grace; their sessions go on when
        it comes back, before all others.
        """
        sessions = list(Session.objects.filter(launch_handle__isnull=False))
        if not sessions:
            return
        deadline = time.monotonic() + grace_s

        def stop(session: Session) -> list[str]:
            left_s = max(0.0, deadline - time.monotonic())
            return runtime_stop(session, launcher=self._launcher(session), grace_s=left_s)

        with ThreadPoolExecutor(min(len(sessions), RELEASED_AT_ONCE), "release") as threads:
            stops = [threads.submit(stop, session) for session in sessions]
            for session, stopped in zip(sessions, stops, strict=True):
                self._guarded(self._release, session, stopped)

    def _release(self, session: Session, stopped: Future[list[str]]) -> None:
        lines = stopped.result()
        running = session.state in STARTED
        if running and session.desired == Desired.SUSPEND:
            self._move_suspended(session)
        elif running and session.desired == Desired.RUN:
            requeue(session, "the server was stopped", session.restarts, session.created_at)
        runtime_log_keep(session, lines)

    def _launcher(self, session: Session) -> Launcher:
        return session_launcher(session, self._launchers)

    def _guarded(self, act: Callable[..., None], *arguments: object) -> None:
        session_id = arguments[0].id if isinstance(arguments[0], Session) else str(arguments[0])
        try:
            act(*arguments)
            self._away.over(session_id)
        except Conflict:
            pass  # its state changed after it was read: the next tick reads it again
        except LauncherUnavailable as away:
            # The launcher could not say what became of its runtime: nothing is done on a guess.
            place = Session.objects.filter(id=session_id).values_list("place", flat=True).first()
            is_elsewhere = place != HERE and place in self._launchers
            said = f"place {place}: {away}" if is_elsewhere else str(away)
            lasted = self._away.note(session_id, said, timezone.now())
            if isinstance(away, SlowToEnd) and lasted >= UNENDED_DEADLINE:
                unended_give_up(session_id, said, lasted)
        except Exception:
            log.exception("a session could not be reconciled: %s", session_id)

    def _reconcile(self, session: Session) -> None:
        if session.state in STARTED:
            self._running(session)
        elif session.state == SessionState.STOPPING:
            self._stopping(session)
        else:
            # It should not run: it failed or ended while its process was still there.
            runtime_end(session, launcher=self._launcher(session), grace_s=KILL_GRACE_S)
            Session.objects.filter(id=session.id, state=session.state).update(launch_handle=None)

    def _running(self, session: Session) -> None:
        if session.desired == Desired.STOP:
            move(session, SessionState.STOPPING, reason="stop requested")
            return
        now, launcher = timezone.now(), self._launcher(session)
        status = launcher.inspect(runtime_handle(session))
        if session.desired == Desired.SUSPEND and session.state == SessionState.READY:
            self._suspending(session, alive=status.state == "running", now=now)
            return
        self._suspending_since.pop(session.id, None)
        if status.state == "running":
            address_note(session, launcher)
        if ended := self._ended_cause(session, status, now):
            recover(session, ended, "exited", launcher=launcher)
        elif status.state == "waiting":
            waiting_note(session, status.reason, now)
        elif self._stuck_cause(session, now):
            session.refresh_from_db()  # it may have moved since this tick read it
            if cause := self._stuck_cause(session, now):
                stuck_announce(session, cause)
                recover(session, cause, "stuck", launcher=launcher)
        elif (
            self._draining
            and session.state == SessionState.READY
            and session.desired == Desired.RUN
        ):
            suspend_request(session, "the server is being drained")
        elif liveness.is_idle(session, now=now):
            suspend_request(session, "idle")

    def _ended_cause(self, session: Session, status: RuntimeStatus, now: datetime) -> str:
        """Why a runtime is none any more; empty while it is one."""
        if not status.is_alive:
            code = "" if status.code is None else f" with code {status.code}"
            return (
                f"the runtime's process ended{code}{f': {status.reason}' if status.reason else ''}"
            )
        is_lost = status.state == "running" and status.reason
        if is_lost and liveness.is_unleased(session, now=now, judging_since=self._judging_since):
            return f"the runtime is lost: {status.reason}"
        return ""

    def _stuck_cause(self, session: Session, now: datetime) -> str | None:
        return liveness.stuck_cause(session, now=now, judging_since=self._judging_since)

    @property
    def _judging_since(self) -> datetime:
        assert self._led_since is not None, "who does not lead looks at no session"
        return self._led_since

    def _suspending(self, session: Session, *, alive: bool, now: datetime) -> None:
        since = self._suspending_since.setdefault(session.id, now)
        if alive and not liveness.is_overdue(session, since=since, now=now):
            return
        runtime_end(session, launcher=self._launcher(session), grace_s=KILL_GRACE_S)
        self._suspending_since.pop(session.id, None)
        self._move_suspended(session)

    def _move_suspended(self, session: Session) -> None:
        move(
            session,
            SessionState.SUSPENDED,
            reason="its runtime ended as asked",
            restarts=0,
            launch_handle=None,
        )

    def _stopping(self, session: Session) -> None:
        alive = False
        if session.launch_handle:
            launcher = self._launcher(session)
            alive = launcher.inspect(session.launch_handle).state == "running"
            since, now = session.state_since, timezone.now()
            if alive and not liveness.is_overdue(session, since=since, now=now):
                return
            runtime_end(session, launcher=launcher, grace_s=KILL_GRACE_S)
        reason = "the runtime did not end in time and was killed" if alive else "the runtime ended"
        move(session, SessionState.STOPPED, reason=reason, launch_handle=None)
