"""The reconciler's starts: a queued session gets its runtime, or waits where it is with the reason
in its record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from console.catalogue.base_models import base_model_resolve
from console.errors import InvalidRequest, UnknownBaseModel
from console.scheduling import liveness
from console.scheduling.launch import NotStarted, earlier_end, handle_new, runtime_launch
from console.scheduling.launchers.choice import session_launcher
from console.scheduling.launchers.protocol import Launcher, MachinesShort, SlowToEnd
from console.scheduling.launchers.warm import WarmRuntimes
from console.scheduling.recovery import disk_full, model_gone, move, recover, requeue, was_ready
from console.scheduling.session_notes import waiting_note
from console.sessions.limits.devices import DevicesShort
from console.sessions.limits.queue import queue_waiting
from console.sessions.models import Session
from console.sessions.selectors import session_counts
from console.sessions.services import end_without_runtime
from console.sessions.starting_points import start_check
from console.sessions.states import WITH_RUNTIME, Desired
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

# Until it is tried again where an earlier runtime has to end first and does not: longer each time.
START_AGAIN_S, START_AGAIN_MAX_S = 3.0, 60.0


@dataclass(frozen=True)
class Later:
    """A start that waits ``wait_s``, until ``not_before``, for the reason given: for an earlier
    runtime that ``ends`` slowly, or for machines.
    """

    not_before: datetime
    wait_s: float
    reason: str
    ends: bool


class QueuedStarts:
    """Starts queued sessions, one at a time, each by the one of ``launchers`` that is of its place.

    ``known`` are this machine's devices, ``warm`` its runtimes without a session.

    ``later`` has the sessions whose earlier runtime is slow to end, or whose cluster has lost a
    machine, for as long as they are queued.
    """

    def __init__(
        self,
        launchers: Mapping[str, Launcher],
        *,
        known: Sequence[str],
        warm: WarmRuntimes | None,
        disk_free: Callable[[], int],
    ) -> None:
        self._launchers = launchers
        self._known, self._warm, self._disk_free = known, warm, disk_free
        # for sessions before others in the queue that cannot start in this tick
        self._devices_kept = 0
        self.later: dict[str, Later] = {}
        # whose earlier runtime is gone and who waits for devices since
        self._ended: set[str] = set()

    def begin_tick(self) -> None:
        """The queue is gone through from its front."""
        self._devices_kept = 0
        # what was stopped or removed meanwhile is not kept in mind
        if known := self.later.keys() | self._ended:
            rows = Session.objects.filter(id__in=known, state=SessionState.QUEUED)
            queued = set(rows.values_list("id", flat=True))
            self.later = {waits: self.later[waits] for waits in self.later.keys() & queued}
            self._ended &= queued

    def forget(self) -> None:
        """Another reconciler may have started them meanwhile."""
        self.later.clear()
        self._ended.clear()

    def start(self, session_id: str) -> None:
        """Start it if it can be now. Raises SlowToEnd, Conflict, LauncherUnavailable."""
        session = Session.objects.get(id=session_id)
        if session.desired == Desired.STOP:
            self.later.pop(session_id, None)
            ended = end_without_runtime(session.id, SessionState.QUEUED)
            move(session, ended, reason="stop requested")
            return
        if self._model_gone(session):
            return
        now = timezone.now()
        later = self.later.get(session_id)
        if now < max(liveness.restart_not_before(session), later.not_before if later else now):
            self._devices_keep(session)  # its slot is kept for it meanwhile, and so are these
            if later and later.ends:
                raise SlowToEnd(later.reason)
            return
        free = self._disk_free()
        if free < settings.DISK_FLOOR_BYTES:
            self._refuse_disk_full(session, free)
            return
        self._launch(session, now)

    def _devices_keep(self, session: Session) -> None:
        if session.place == HERE:
            self._devices_kept += session.devices

    def _launch(self, session: Session, now: datetime) -> None:
        launcher = session_launcher(session, self._launchers)
        if session.place != HERE:
            _place_ask(session, launcher)
        warm = self._warm if session.place == HERE else None
        try:
            # It ran before: looked at while it is queued, so that waiting is no state of its own.
            if session.launcher and session.id not in self._ended:
                earlier_end(session, launcher=launcher)
                self._ended.add(session.id)
            runtime_launch(
                session, launcher=launcher, warm=warm, known=self._known, kept=self._devices_kept
            )
            self.later.pop(session.id, None)
            self._ended.discard(session.id)
        except SlowToEnd as error:  # nothing was started: no restart is counted
            session.refresh_from_db()
            self._wait(session, str(error), now, ends=True)
            raise
        except MachinesShort as short:
            session.refresh_from_db()
            if was_ready(session):
                self._wait(session, str(short), now, ends=False)
                return
            cause = f"the runtime could not be started: {short}"
            recover(session, cause, "not_started", launcher=launcher)
        except NotStarted as error:
            self._ended.discard(session.id)  # something of it may have been started
            session.refresh_from_db()
            recover(session, str(error), "not_started", launcher=launcher)
        except DevicesShort as short:
            # What is free is kept for it: who comes later and needs less must not overtake it for
            # ever.
            self._devices_keep(session)
            waiting_note(session, str(short), timezone.now())

    def _wait(self, session: Session, reason: str, now: datetime, *, ends: bool) -> None:
        before = self.later.get(session.id)
        wait_s = min(before.wait_s * 2, START_AGAIN_MAX_S) if before else START_AGAIN_S
        self.later[session.id] = Later(now + timedelta(seconds=wait_s), wait_s, reason, ends)
        self._devices_keep(session)
        if session.state != SessionState.QUEUED:
            requeue(session, reason, session.restarts)
            return
        waiting_note(session, reason, now)

    def _model_gone(self, session: Session) -> bool:
        """Whether its base model or the checkpoint that it began from is gone: each of its runtimes
        would be refused.

        A session that ran before keeps what it has, suspended, until it is woken; a new one fails
        at once.
        """
        try:
            base_model_resolve(session.base_model)
            start_check(session)
        except (UnknownBaseModel, InvalidRequest) as gone:
            self.later.pop(session.id, None)
            self._ended.discard(session.id)
            if session.launcher:
                kept = {"desired": Desired.SUSPEND, "restarts": 0}
                move(session, SessionState.SUSPENDED, reason=str(gone), **kept)
            else:
                failure = model_gone(gone)
                move(session, SessionState.FAILED, reason=str(gone), failure=failure)
            return True
        return False

    def _refuse_disk_full(self, session: Session, free_bytes: int) -> None:
        """A session that ran before waits for free space and continues from its state; a new one
        fails at once.
        """
        needed = f"{settings.DISK_FLOOR_BYTES >> 20} MiB"
        if session.launcher:
            reason = f"the server's disk is nearly full: waits for {needed} of free space"
            waiting_note(session, reason, timezone.now())
            return
        failure = disk_full(free_bytes=free_bytes, needed=needed)
        move(session, SessionState.FAILED, reason=failure["cause"], failure=failure)


def warm_keep(warm: WarmRuntimes, *, drains: bool) -> None:
    """As many as the sessions leave room for; what has no session yet never takes one's place."""
    counts = session_counts(place=HERE)
    room = settings.MAX_RUNTIMES - sum(counts[state] for state in WITH_RUNTIME)
    # On a full server, where a long queue may stand, its order is not asked for.
    queued = queue_waiting() if counts[SessionState.QUEUED] and room > 0 else 0
    # Who waits and who loads needs the processors.
    others = queued + counts[SessionState.PROVISIONING] + counts[SessionState.LOADING]
    warm.keep(room=0 if drains else room - queued, may_start=others == 0)


def _place_ask(session: Session, launcher: Launcher) -> None:
    """Raises LauncherUnavailable, and soon, while the place's cluster hangs: each command of a
    start would wait for it, and with that the sessions of every other place.
    """
    launcher.inspect(handle_new(session, launcher))
