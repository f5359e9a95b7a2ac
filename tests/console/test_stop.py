"""A server that is asked to end ends, whatever it waits for: another program that holds the
database, a runtime or an engine that hangs.
"""

import io
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.management.commands import up
from console.operations import backups
from console.scheduling.children import supervisor
from console.scheduling.children.supervisor import Child, Interrupted, Signals, Supervisor
from support.reconciler_world import World, state_of
from tinkerscript.wire.sessions import SessionState


@pytest.fixture
def signals() -> Iterator[Signals]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
    before = {number: signal.getsignal(number) for number in numbers}
    yield Signals()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """What hangs in a test waits for this, which comes after it."""
    event = threading.Event()
    yield event
    event.set()


def test_a_request_to_end_breaks_off_what_may_wait_for_others_and_nothing_else(
    signals: Signals,
) -> None:
    signal.raise_signal(signal.SIGCHLD)
    with pytest.raises(Interrupted), signals.interrupting():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    assert signals.asked == 3
    with pytest.raises(Interrupted), signals.interrupting():
        pytest.fail("it was asked before")


def test_a_server_that_is_asked_to_end_during_its_migrations_starts_nothing(
    signals: Signals, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA = tmp_path
    started: list[str] = []
    monkeypatch.setattr(up, "Signals", lambda: signals)
    monkeypatch.setattr(up, "_port_check", lambda: None)
    monkeypatch.setattr(up, "call_command", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(Supervisor, "start", lambda _, child: started.append(child.name))
    monkeypatch.setattr(up.connections, "close_all", lambda: None)
    up.Command(stdout=io.StringIO()).handle()
    assert started == [] and signals.asked == 1


class Stopping(up.Command):
    """One that serves already. Its reconciler's ``release_all`` does as ``release`` does."""

    def __init__(self, release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(stdout=io.StringIO())
        self.stopped: list[str] = []
        self.graces: list[float] = []
        self._signals, self._children = self, self  # type: ignore[assignment]
        self._web_listener, self._web_names, self._has_tables = None, ["web"], True
        self.asked, self._release_all = 1, release
        monkeypatch.setattr(up, "Reconciler", lambda *_, **__: self)
        monkeypatch.setattr(up.connections, "close_all", lambda: None)

    def stop(self, *names: str, **_: Any) -> None:
        self.stopped += names

    def release_all(self, *, grace_s: float) -> None:
        self.graces.append(grace_s)
        self._release_all(self)

    def _launchers_get(self) -> Any:
        return None, {}

    @property
    def said(self) -> str:
        return self.stdout._out.getvalue()  # noqa: SLF001 - Django wraps what it writes to


def test_a_server_ends_though_the_database_does_not_respond(
    monkeypatch: pytest.MonkeyPatch, let_go: threading.Event
) -> None:
    monkeypatch.setattr(up, "RELEASE_S", 0.05)
    command = Stopping(lambda _: let_go.wait(), monkeypatch)
    command._stop()  # noqa: SLF001 - what `handle` does at its end
    assert command.stopped == ["web", "lease", "reconcile", "store"]
    assert "the database does not respond" in command.said and command.graces == [15.0]


def test_a_second_request_ends_runtimes_at_once(
    monkeypatch: pytest.MonkeyPatch, let_go: threading.Event
) -> None:
    def hang(command: Stopping) -> None:
        if command.asked == 1:
            command.asked = 2
            let_go.wait()

    command = Stopping(hang, monkeypatch)
    command._stop()  # noqa: SLF001
    assert command.graces == [15.0, 0.0] and command.said == ""
    assert command.stopped[-1] == "store"


def test_runtimes_have_their_grace_together_when_the_server_stops(
    world: World, project: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAX_RUNTIMES = 3
    sessions = [world.ready(project) for _ in range(3)]
    together, stop = threading.Barrier(3, timeout=20), world.launcher.stop

    def stop_with_the_others(handle: Any, *, grace_s: float) -> None:
        together.wait()
        stop(handle, grace_s=grace_s)

    monkeypatch.setattr(world.launcher, "stop", stop_with_the_others)
    world.reconciler.release_all(grace_s=15)
    assert [state_of(session) for session in sessions] == [SessionState.QUEUED] * 3
    assert all(10 < grace_s <= 15 for _, grace_s in world.launcher.stopped)


class Deaf:
    """A process that ends when it is killed."""

    pid = 4711

    def __init__(self) -> None:
        self.is_killed = False

    def poll(self) -> int | None:
        return -9 if self.is_killed else None

    def wait(self, timeout_s: float) -> int:
        if not self.is_killed:
            raise subprocess.TimeoutExpired("deaf", timeout_s)
        return -9

    def terminate(self) -> None:
        pass

    def send_signal(self, _: int) -> None:
        pass

    def kill(self, *_: int) -> None:
        self.is_killed = True


def test_a_child_that_does_not_end_is_named_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process, children = Deaf(), Supervisor(tmp_path)
    monkeypatch.setattr(supervisor.os, "killpg", process.kill)
    child = Child("lease", lambda: process, grace_s=0.0, process=process)  # type: ignore[arg-type]
    children._children.append(child)  # noqa: SLF001 - `start` would look for a real process
    children.stop("lease", force=lambda: False)
    assert process.is_killed and "lease did not end within 0 s: it is killed" in caplog.text


def test_a_store_of_a_command_that_does_not_end_is_killed(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DATA, process = tmp_path, Deaf()
    monkeypatch.setattr(backups.seaweedfs, "start", lambda *_, **__: process)
    monkeypatch.setattr(backups.seaweedfs, "guards_verify", lambda *_, **__: None)
    monkeypatch.setattr(backups.object_store, "ready_wait", lambda **_: None)
    with backups._started():  # noqa: SLF001 - what starts one where no server runs
        pass
    assert process.is_killed and "the store did not end" in caplog.text
