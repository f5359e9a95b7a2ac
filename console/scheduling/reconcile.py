"""The reconciler: compares what sessions should be with what they are, and acts on the difference.

Level-triggered: every tick looks at everything anew, so that a lost event, a crash or a second
reconciler costs nothing. Moves are conditional, so that a tick that acts on an old view changes
nothing. Of several reconcilers one leads (``leader.py``) and looks after the sessions of all
places: those with a runtime (``running.py``), then those in the queue (``starts.py``).
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from console.errors import Conflict
from console.scheduling.absent_clients import absent_clients_give_way
from console.scheduling.instance import is_draining
from console.scheduling.launchers.choice import session_launcher
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable, SlowToEnd
from console.scheduling.launchers.warm import WarmRuntimes
from console.scheduling.leader import Leadership, leader_release
from console.scheduling.recovery import runtime_stop, unended_give_up
from console.scheduling.running import RunningSessions, released_move, running_list
from console.scheduling.session_notes import AwayNotes
from console.scheduling.starts import QueuedStarts, warm_keep
from console.sessions.limits.devices import devices_release, devices_sync
from console.sessions.limits.places import places_free
from console.sessions.limits.queue import queue_next
from console.sessions.models import Session
from console.sessions.states import WITH_RUNTIME
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

log = logging.getLogger(__name__)

RELEASED_AT_ONCE = 16  # runtimes that end together when the server stops
# so long a runtime that was killed may keep its session's place
UNENDED_DEADLINE = timedelta(minutes=10)
IDLE_S = 4.0  # between ticks where nothing runs or waits; the lease lasts longer


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
        self._running = RunningSessions(self._launchers)
        self._starts = QueuedStarts(self._launchers, known=devices, warm=warm, disk_free=disk_free)
        self._away = AwayNotes()
        self._lead = Leadership(self._take_over, self._forget, self._stand_by)
        self.is_idle = False

    def reconcile_once(self) -> bool:
        """One tick; False when another leads."""
        now, began = timezone.now(), time.monotonic()
        self.is_idle = False
        if self._lead.renew(now) is None:
            return False
        drains = is_draining()
        sessions = running_list()
        for session in sessions:
            if since := self._lead.keep():
                with self._guard(session.id):
                    self._running.reconcile(session, judging_since=since, drains=drains)
        if self._lead.judging_since is None:  # it was lost in the middle of them
            return False
        self._away.forget_ended()
        devices_release(known=self._devices)
        # A server where nothing waits computes no order twice a second.
        is_queued = Session.objects.filter(state=SessionState.QUEUED).exists()
        if is_queued and not drains:
            self._start_queued(now)
        if self._warm and self._lead.judging_since:
            warm_keep(self._warm, drains=drains)
        self.is_idle = not (sessions or is_queued or (self._warm and self._warm.is_changing))
        self._lead.tick_s = time.monotonic() - began
        return True

    def _start_queued(self, now: datetime) -> None:
        """Start those for which there is room; if some still wait, absent clients make room."""
        self._starts.begin_tick()
        for session_id in queue_next(slots=places_free()):
            if self._lead.keep():
                with self._guard(session_id):
                    self._starts.start(session_id)
        if since := self._lead.judging_since:
            absent_clients_give_way(now=now, judging_since=since)

    def is_due(self) -> bool:
        """Whether to tick now: after a tick without work, only for new work or after ``IDLE_S``."""
        if not self.is_idle or self._lead.age_s >= IDLE_S:
            return True
        return Session.objects.filter(state__in=(SessionState.QUEUED, *WITH_RUNTIME)).exists()

    def close(self) -> None:
        """Let other reconcilers lead. The runtimes run on, but for those that have no session."""
        self._stand_by()
        leader_release(holder=self._lead.holder)

    def release_all(self, *, grace_s: float) -> None:
        """End every runtime because the server stops, all in one grace; their sessions go on when
        it comes back, before all others.
        """
        sessions = list(Session.objects.filter(launch_handle__isnull=False))
        deadline = time.monotonic() + grace_s

        def stop(session: Session) -> list[str]:
            left_s = max(0.0, deadline - time.monotonic())
            launcher = session_launcher(session, self._launchers)
            return runtime_stop(session, launcher=launcher, grace_s=left_s)

        with ThreadPoolExecutor(RELEASED_AT_ONCE, "release") as threads:
            stops = [threads.submit(stop, session) for session in sessions]
            for session, stopped in zip(sessions, stops, strict=True):
                with self._guard(session.id):
                    released_move(session, stopped.result())

    def _take_over(self) -> None:
        if self._warm:
            self._warm.clear_predecessors()
        devices_sync(ids=self._devices)

    def _forget(self) -> None:
        self._running.forget()
        self._starts.forget()

    def _stand_by(self) -> None:
        if self._warm:
            self._warm.close()

    @contextmanager
    def _guard(self, session_id: str) -> Iterator[None]:
        """An error in one session does not keep the tick from the others."""
        try:
            yield
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
