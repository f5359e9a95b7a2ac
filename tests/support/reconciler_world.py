"""A world for the reconciler: a launcher and a clock of our own, and runtimes that report what a
test sets.
"""

from datetime import timedelta

from django.utils import timezone

from console.scheduling.launchers.protocol import (
    LauncherUnavailable,
    MachinesShort,
    RuntimeStatus,
    SlowToEnd,
)
from console.scheduling.reconcile import Reconciler
from console.sessions.models import Session
from console.sessions.runtime import leases
from support import factories
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import PHASE_WAITING, RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import SessionState

GIB = 1 << 30


class FakeLauncher:
    """Keeps runtimes in a dict; ``ends`` says how a process ended that is no longer there."""

    name = "fake"

    def __init__(self):
        self.alive: dict[str, dict[str, str]] = {}  # launch -> its environment
        self.ends: dict[str, int] = {}
        self.stopped: list[tuple[str, float]] = []
        self.broken = self.away = False
        self.short = ""  # of which machines its cluster has too few
        # "start", "stop": what an earlier runtime, or this one, that does not die refuses
        self.slow: set[str] = set()
        self.others: set[int] = set()  # ports of this machine that no runtime listens on
        self.asked = 0  # how often what earlier runtimes left was to be ended
        self.queue = ""  # why a runtime has no place yet
        self.lost = ""  # why one that runs may be none any more

    def new_handle(self, *, session_id, instance_id, folder, gpus=0, devices=()):
        launch = f"{session_id}/{len(self.alive) + len(self.ends) + len(self.stopped)}"
        return {"launch": launch, "folder": str(folder), "gpus": gpus, "devices": devices}

    def start(self, handle, *, environment):
        self._answer("start")
        if self.broken:
            raise FileNotFoundError("no such program")
        if self.short:
            raise MachinesShort(self.short)
        self.alive[handle["launch"]] = dict(environment)
        return handle | {"pid": 4711}

    def others_end(self, handle):
        self.asked += 1
        self._answer("start")

    def inspect(self, handle):
        self._answer()
        if handle["launch"] in self.alive:
            return RuntimeStatus(
                "waiting" if self.queue else "running", reason=self.queue or self.lost
            )
        code = self.ends.get(handle["launch"])
        return RuntimeStatus("gone") if code is None else RuntimeStatus("exited", code)

    def address(self, handle, *, port):
        self._answer()
        return f"127.0.0.1:{port}" if port not in self.others else ""

    def stop(self, handle, *, grace_s):
        self._answer("stop")
        self.alive.pop(handle["launch"], None)
        self.stopped.append((handle["launch"], grace_s))

    def logs(self, handle, *, lines):
        return [f"line {number}" for number in range(100)][-lines:]

    def _answer(self, what=""):
        if what in self.slow:
            raise SlowToEnd(f"what is left at {object()} is slow to end")
        if self.away:
            raise LauncherUnavailable("nothing listens there")

    def die(self, code=-9):
        for launch in list(self.alive):
            del self.alive[launch]
            self.ends[launch] = code


class World:
    """A reconciler, its launcher, its clock, and runtimes that report what a test sets.

    A runtime that waits for episodes advances its progress at every heartbeat; any other does as
    ``beat`` says.
    """

    def __init__(self, devices=()):
        self.now = timezone.now()
        self.devices = devices
        self.free = 100 * GIB
        self.launcher = FakeLauncher()
        self.reconciler = self.another()

    def another(self, devices=None) -> Reconciler:
        devices = self.devices if devices is None else devices
        return Reconciler(self.launcher, devices=devices, disk_free=lambda: self.free)

    def tick(
        self, seconds: float = 1.0, *, beat: RuntimeState | None = None, step_s: float = 1.0
    ) -> None:
        """Let time pass in steps; living runtimes send ``beat`` in each."""
        while seconds > 0:
            self.now += timedelta(seconds=min(seconds, step_s))
            seconds -= step_s
            if beat:
                self.beat(beat)
            assert self.reconciler.reconcile_once()

    def beat(self, beat: RuntimeState) -> None:
        for environment in list(self.launcher.alive.values()):
            session = leases.lease_check(token=environment["TINKERSCRIPT_LEASE"])
            if session.state == SessionState.PROVISIONING:
                leases.runtime_register(session=session)
            turns = {"progress": session.progress + 1} if beat.phase == PHASE_WAITING else {}
            leases.runtime_heartbeat(session=session, body=beat.model_copy(update=turns))

    def session(self, project, **config) -> Session:
        self.now += timedelta(milliseconds=1)  # no two arrive at the same time
        return factories.session_make(project, config=SessionConfig(**config))

    def ready(self, project, **config) -> Session:
        session = self.session(project, **config)
        self.tick()
        self.beat(READY)
        session.refresh_from_db()
        assert session.state == SessionState.READY
        return session


def state_of(session: Session) -> str:
    """The state that it has now."""
    session.refresh_from_db()
    return session.state


READY = RuntimeState(
    state=RuntimeStage.READY, phase=PHASE_WAITING, progress=5, address="127.0.0.1:9"
)
