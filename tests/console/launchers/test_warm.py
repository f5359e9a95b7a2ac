"""Runtimes that import their libraries before a session asks: taken by the next one, never by two,
ended with us.
"""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from console.live.models import EventRecord
from console.scheduling import processes
from console.scheduling.launchers import warm as warm_module
from console.scheduling.launchers.log_file import LOG, log_tail
from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.process import MARK, ProcessLauncher
from console.scheduling.launchers.protocol import Resources
from console.scheduling.launchers.warm import SpareMemory, WarmRuntimes
from console.scheduling.models import WarmRuntime
from console.scheduling.processes import wait_until
from console.scheduling.reconcile import Reconciler
from console.sessions.models import Session
from console.sessions.states import Desired
from console.users.models import Project
from support import factories
from support.reconciler_world import GIB
from tinkerscript.wire.sessions import SessionKind, SessionState

COLD = "import os, time; print('cold', flush=True); time.sleep(120)"
ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (sys.executable, str(ROOT / "tests/support/fake_warm.py"))


class Server:
    """A reconciler that leads, its launcher and its warm runtimes; a clock that a test turns."""

    def __init__(self, tmp_path: Path) -> None:
        self.now, self.memory_gib = 0.0, 16.0
        self.launcher = ProcessLauncher([sys.executable, "-c", COLD])
        self.pool = WarmRuntimes(
            self.launcher, 1, tmp_path / "warm", command=PROGRAM,
            clock=lambda: self.now, memory=SpareMemory(lambda: int(self.memory_gib * GIB)),
        )  # fmt: skip
        self.reconciler = Reconciler(self.launcher, warm=self.pool, disk_free=lambda: 100 * GIB)

    def tick(self) -> None:
        assert self.reconciler.reconcile_once()

    def waiting(self, *, ready: bool = True) -> str:
        """The name of the one that waits."""
        found = WarmRuntime.objects.filter(is_ready=ready)
        assert wait_until(lambda: self.tick() or found.count() == 1, timeout_s=60)
        return found.get().id

    def started(self, session: Session) -> tuple[Session, list[str]]:
        """The session, launched, and what its runtime wrote."""
        before = len(log_tail(settings.DATA / "runtimes" / session.id / LOG, lines=9))
        self.tick()
        session.refresh_from_db()
        handle = session.launch_handle
        lines = lambda: self.launcher.logs(handle, lines=9)  # noqa: E731
        assert wait_until(
            lambda: len(lines()) > before and lines()[-1].startswith(("cold", "serves")),
            timeout_s=60,
        )
        return session, lines()


@pytest.fixture
def server(transactional_db, settings, tmp_path, monkeypatch) -> Iterator[Server]:
    settings.DATA = tmp_path
    (tmp_path / "models" / factories.BASE_MODEL).mkdir(parents=True)
    settings.MAX_RUNTIMES = 1
    monkeypatch.setattr(
        "console.scheduling.launchers.process.code_path",
        lambda: os.pathsep.join(map(str, (ROOT, ROOT / "sdk", ROOT / "tests"))),
    )
    server = Server(tmp_path)
    yield server
    for session in Session.objects.filter(launch_handle__isnull=False):
        server.launcher.stop(session.launch_handle, grace_s=0)
    server.reconciler.close()
    for child in server.launcher._children.values():  # noqa: SLF001 - those whose handle a test forgot
        child.wait(10)
    assert not WarmRuntime.objects.exists() and not left_over("warm-"), "they end with their server"


def left_over(name: str) -> list[int]:
    """Processes whose mark begins so, of this module's servers: others of this machine have warm
    runtimes too.
    """
    folder = f"TINKERSCRIPT_RUNTIME_DIR={settings.DATA}/"
    return [
        it.pid
        for it in processes.processes_list()
        if processes.environment_find(it.pid, f"{MARK}={name}")
        and processes.environment_find(it.pid, folder)
    ]


def stop(name: str) -> None:
    """Returns as soon as none of them runs: until its main thread looks, another one goes on."""
    pids = left_over(name)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    states = lambda: [processes.stat_get(pid).state for pid in pids]  # noqa: E731
    assert wait_until(lambda: set(states()) == {"T"}, timeout_s=60)


def reasons(session: Session) -> list[str]:
    rows = EventRecord.objects.filter(session_id=session.id, kind="state").order_by("id")
    return [row.data.get("reason", "") for row in rows]


@pytest.mark.system
@pytest.mark.parametrize("kind", SessionKind)
def test_a_session_of_any_kind_takes_the_runtime_that_waits(
    server, project, tmp_path, kind
) -> None:
    name = server.waiting()
    waits = left_over(name)
    session = factories.session_make(project)
    Session.objects.filter(id=session.id).update(kind=kind)
    session, lines = server.started(session)
    lease = lines[-1].split()[-1]
    assert lines[0].startswith("imports beside ")
    assert lines[-1] == f"serves {session.id} in {tmp_path / 'runtimes' / session.id} with {lease}"
    assert session.launch_handle["pid"] in waits and "a slot is free: a warm runtime" in reasons(
        session
    )
    for pid in waits:
        for what in ("cmdline", "environ"):
            assert lease.encode() not in Path(f"/proc/{pid}/{what}").read_bytes()
    assert not WarmRuntime.objects.exists() and not (tmp_path / "warm" / name).exists()
    server.tick()
    assert left_over("warm-") == waits, "one session is all that this server has room for"

    # What another reconciler knows of it, with its start written down or not, is enough to see it
    # and to end all of it.
    written, unwritten = (
        session.launch_handle,
        {k: v for k, v in session.launch_handle.items() if "pid" not in k},
    )
    assert (
        ProcessLauncher().inspect(written).state
        == ProcessLauncher().inspect(unwritten).state
        == "running"
    )
    ProcessLauncher().stop(unwritten, grace_s=0)
    assert not left_over(name)


@pytest.mark.system
def test_it_is_never_another_sessions_and_the_next_is_another_one(server, project) -> None:
    first_name = server.waiting()
    session, first = server.started(factories.session_make(project))
    Session.objects.filter(id=session.id).update(desired=Desired.STOP)
    os.kill(session.launch_handle["pid"], signal.SIGKILL)
    assert server.waiting() != first_name
    _, second = server.started(factories.session_make(project))
    assert session.id not in "".join(second) and first[0] != second[0]


@pytest.mark.system
def test_a_session_that_is_woken_keeps_its_log_and_ends_what_an_earlier_warm_launch_left(
    server, project
) -> None:
    server.waiting()
    session, _ = server.started(factories.session_make(project))
    forgotten, start_time = session.launch_handle["pid"], session.launch_handle["start_time"]
    Session.objects.filter(id=session.id).update(state=SessionState.QUEUED, launch_handle=None)
    session, lines = server.started(session)
    assert not processes.is_running(forgotten, start_time) and not left_over("warm-")
    assert [line.split()[0] for line in lines] == ["imports", "serves", "cold"]
    server.launcher.stop(session.launch_handle, grace_s=0)
    Session.objects.filter(id=session.id).update(state=SessionState.SUSPENDED, launch_handle=None)
    server.waiting()
    Session.objects.filter(id=session.id).update(state=SessionState.QUEUED)
    _, lines = server.started(session)
    once = ["imports", "serves"]
    assert [line.split()[0] for line in lines] == [*once, "cold", *once]


@pytest.mark.system
def test_while_none_is_ready_a_session_starts_a_new_one_and_its_record_has_that(
    server, project
) -> None:
    name = server.waiting(ready=False)
    server.pool._waiting[0].is_ready = False  # noqa: SLF001
    session, lines = server.started(factories.session_make(project))
    assert lines == ["cold"] and not left_over(name), "there is no room for both"
    assert "a slot is free: no warm runtime is ready, so a new one" in reasons(session)


@pytest.mark.system
def test_none_waits_where_memory_is_short_and_the_log_says_so_once(
    server, tmp_path, caplog
) -> None:
    server = Server(tmp_path)
    said = lambda: [each for each in caplog.messages if "are available, and 6 are needed" in each]  # noqa: E731
    try:
        server.memory_gib = 5.9
        for _ in range(3):
            server.tick()
        assert not WarmRuntime.objects.exists() and len(said()) == 1
        server.memory_gib = 6.1
        name = server.waiting()
        server.memory_gib = 2.1  # what it holds itself is no reason to end it
        server.tick()
        assert left_over(name)
        server.memory_gib = 1.9
        assert wait_until(lambda: server.tick() or not left_over(name), timeout_s=60)
        assert not WarmRuntime.objects.exists() and len(said()) == 2
    finally:
        server.reconciler.close()


def test_none_waits_where_sessions_have_devices(server, settings) -> None:
    settings.LAUNCHER = LauncherOptions(name="process", resources=Resources(gpus=1))
    server.tick()
    assert not WarmRuntime.objects.exists()


@pytest.mark.system
def test_one_that_does_not_answer_is_killed_and_the_session_starts_without_it(
    server, project, monkeypatch
) -> None:
    name = server.waiting()
    monkeypatch.setattr(warm_module, "TAKE_S", 0.2)
    stop(name)
    session, lines = server.started(factories.session_make(project))
    assert lines[-1] == "cold" and not left_over(name)
    said = EventRecord.objects.filter(session_id=session.id, data__name="warm_runtime").get().data
    assert said["cause"] == "the warm runtime did not take the session, so a new one is started"


@pytest.mark.system
def test_it_ends_by_itself_when_its_server_is_killed_while_it_starts_and_while_it_waits(
    server,
) -> None:
    for is_ready in (True, False):
        name = server.waiting(ready=is_ready)
        server.pool._waiting[0].link.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - as a kill -9 does
        assert wait_until(lambda name=name: not left_over(name), timeout_s=60)
        assert wait_until(lambda: server.tick() or not WarmRuntime.objects.exists(), timeout_s=60)
        server.now += warm_module.BACK_OFF_MAX_S


@pytest.mark.system
def test_one_that_was_stopped_under_a_server_that_was_killed_is_ended_by_the_next_that_leads(
    server, tmp_path
) -> None:
    name = server.waiting()
    stop(name)
    WarmRuntimes(server.launcher, 1, tmp_path / "warm").clear_predecessors()
    assert (
        wait_until(lambda: not left_over(name), timeout_s=60) and not WarmRuntime.objects.exists()
    )


@pytest.mark.system
def test_one_that_ends_is_tried_again_later_and_later(server, tmp_path) -> None:
    (tmp_path / "broken").touch()
    for wait_s in (warm_module.BACK_OFF_S, 2 * warm_module.BACK_OFF_S):
        server.tick()
        (name,) = WarmRuntime.objects.values_list("id", flat=True)
        assert wait_until(lambda: server.tick() or not WarmRuntime.objects.exists(), timeout_s=60)
        assert not left_over(name)
        server.now += wait_s - 1
        server.tick()
        assert not WarmRuntime.objects.exists()
        server.now += 1


@pytest.mark.system
def test_one_that_ends_while_it_imports_is_tried_again_later_and_later(server) -> None:
    """It was ready before, as a process is that a kernel of this processor kills."""
    for wait_s in (warm_module.BACK_OFF_S, 2 * warm_module.BACK_OFF_S):
        for pid in left_over(server.waiting()):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: server.tick() or not WarmRuntime.objects.exists(), timeout_s=60)
        server.now += wait_s - 1
        server.tick()
        assert not WarmRuntime.objects.exists()
        server.now += 1


@pytest.mark.system
def test_a_session_that_its_quota_holds_back_does_not_keep_them_away(server, project) -> None:
    factories.session_make(project)
    Project.objects.filter(id=project.id).update(device_quota=0)
    server.waiting()


@pytest.mark.system
def test_one_that_cannot_be_started_leaves_nothing_and_is_tried_again(server, project) -> None:
    server.pool._command = ["/no/such/program"]  # noqa: SLF001
    for _ in range(3):
        server.tick()
        assert not WarmRuntime.objects.exists()
    server.pool._command = list(PROGRAM)  # noqa: SLF001
    server.now += warm_module.BACK_OFF_S
    server.waiting()


@pytest.mark.system
@pytest.mark.parametrize(
    "is_leader_dead", [True, False], ids=["its first process is gone", "all of it is there"]
)
def test_one_that_is_slow_to_end_keeps_its_place_until_nothing_of_it_lives(
    server, settings, tmp_path, monkeypatch, is_leader_dead
) -> None:
    """As a process is that waits in a driver: here a signal has no effect for a while."""
    monkeypatch.setattr(warm_module, "KILL_WAIT_S", 0.1)
    name = server.waiting()
    leader = server.pool._waiting[0].child.pid  # noqa: SLF001
    stop(name)
    if is_leader_dead:
        os.kill(leader, signal.SIGKILL)
    kept = WarmRuntime.objects.values_list("id", flat=True)
    with monkeypatch.context() as patch:
        patch.setattr(processes, "signal_send", lambda *_: True)
        server.memory_gib = 1.0
        server.tick()
        server.memory_gib = 16.0
        for _ in range(2):
            server.tick()
            assert left_over(name) and list(kept.all()) == [name], (
                "no other is started in its place"
            )
        server.reconciler.close()
        WarmRuntimes(server.launcher, 1, tmp_path / "warm").clear_predecessors()
        assert list(kept.all()) == [name]
    assert wait_until(lambda: server.tick() or name not in kept.all(), timeout_s=60)
    assert not left_over(name)
