"""The supervisor starts again what died, what was stopped and what responds no more; and leaves
alone what works.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.scheduling import processes
from console.scheduling.children import supervisor
from console.scheduling.children.health import ChildHealth, Limits
from console.scheduling.children.supervisor import Child, Signals, Supervisor
from console.scheduling.processes import wait_until

pytestmark = pytest.mark.system

QUICK = Limits(stopped_s=0.3, silent_s=0.4, starting_s=2.0, look_every_s=0.05, probe_every=1)
SLEEP = "import time; print('up', flush=True); time.sleep(120)"
WAIT_S = 30


class World:
    """A supervisor of one child, which is a sleeping process of its own group."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.supervisor = folder, Supervisor(folder, limits=QUICK)
        self.child: Child | None = None
        self.pids: list[int] = []

    def start(self, probe: Callable[[], bool] | None = None, limits: Limits = QUICK) -> int:
        self.supervisor = Supervisor(self.folder, limits=limits)
        self.child = Child("web", self._spawn, grace_s=0.5, probe=probe)
        self.supervisor.start(self.child)
        return self.pids[-1]

    def restarted(self, times: int = 1) -> bool:
        """Whether there was a new process so many times, within the time that a test waits."""

        def is_new() -> bool:
            self.supervisor.restart_dead()
            return len(self.pids) == 1 + times

        return wait_until(is_new, timeout_s=WAIT_S)

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEP], start_new_session=True, stdout=subprocess.DEVNULL
        )
        self.pids.append(process.pid)
        return process


def deaf() -> subprocess.Popen[bytes]:
    """A process that SIGTERM does not end."""
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
    process = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE
    )
    with process.stdout as said:
        assert said.readline() == b"up\n"
    return process


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.supervisor.stop("web", force=lambda: True)


def is_there(pid: int) -> bool:
    stat = processes.stat_read(pid)
    return stat is not None and stat.state not in "ZX"


def test_a_child_that_died_is_started_again(world: World) -> None:
    os.kill(world.start(), signal.SIGKILL)
    assert world.restarted()


def test_a_child_that_was_stopped_is_killed_and_started_again(world: World) -> None:
    stopped = world.start()
    os.kill(stopped, signal.SIGSTOP)
    assert world.restarted() and not is_there(stopped)


def test_a_child_that_worked_and_responds_no_more_is_killed_and_started_again(world: World) -> None:
    works = [True]
    silent = world.start(lambda: works[0])
    assert wait_until(lambda: world.child.health is not None, timeout_s=WAIT_S)
    works[0] = False
    assert world.restarted() and not is_there(silent)


def test_a_child_that_never_begins_to_work_is_started_again_later_than_one_that_stopped_to(
    world: World,
) -> None:
    never = world.start(lambda: False, limits=replace(QUICK, silent_s=0.1, starting_s=4.0))
    assert not wait_until(lambda: world.child.health.problem is not None, timeout_s=0.5)
    assert world.restarted() and not is_there(never)


def test_a_probe_that_fails_now_and_then_costs_nothing(world: World) -> None:
    answers = [True, False] * 10
    world.start(lambda: answers.pop() if answers else True, limits=replace(QUICK, silent_s=30.0))
    assert wait_until(lambda: not answers, timeout_s=WAIT_S)
    world.supervisor.restart_dead()
    assert len(world.pids) == 1 and world.child.health.problem is None


def test_a_probe_that_cannot_look_has_seen_nothing_that_works(world: World) -> None:
    def broken() -> bool:
        raise ValueError("no such page")

    world.start(broken)
    assert world.restarted()


def test_a_stopped_child_can_be_ended(world: World) -> None:
    pid = world.start()
    os.kill(pid, signal.SIGSTOP)
    world.supervisor.stop("web", force=lambda: False)
    assert not is_there(pid)


def test_children_that_do_not_end_have_their_grace_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that cannot be waited for keeps no other from being ended."""
    supervisor, children = (
        Supervisor(tmp_path, limits=QUICK),
        [Child(f"web-{n}", deaf, grace_s=1.0) for n in range(3)],
    )
    for child in children:
        supervisor.start(child)
    graces: list[float] = []
    wait = processes.wait_until

    def noted(condition: Callable[[], bool], *, timeout_s: float) -> bool:
        graces.append(timeout_s)
        return wait(condition, timeout_s=timeout_s)

    def stuck(timeout_s: float) -> int:
        raise subprocess.TimeoutExpired("web-0", timeout_s)

    monkeypatch.setattr(processes, "wait_until", noted)
    monkeypatch.setattr(children[0].process, "wait", stuck)
    supervisor.stop(*(child.name for child in children), force=lambda: False)
    assert sum(graces) < 2.0
    assert (
        not any(is_there(child.process.pid) for child in children[1:])
        and list(tmp_path.glob("*.json")) == []
    )
    monkeypatch.undo()
    assert children[0].process.wait(WAIT_S) == -signal.SIGKILL


def test_a_signal_and_the_end_of_a_child_end_a_wait(monkeypatch) -> None:
    handlers = {}
    monkeypatch.setattr(
        supervisor.signal, "signal", lambda number, handler: handlers.setdefault(number, handler)
    )
    signals = Signals()
    handlers[signal.SIGCHLD](signal.SIGCHLD, None)
    signals.wait(WAIT_S)
    assert signals.asked == 0
    handlers[signal.SIGINT](signal.SIGINT, None)
    signals.wait(WAIT_S)
    assert signals.asked == 1


def test_a_probe_is_asked_less_often_than_the_kernel(monkeypatch) -> None:
    looks, looks_at_probe = [], []
    monkeypatch.setattr(processes, "stat_read", looks.append)

    def probe() -> bool:
        looks_at_probe.append(len(looks))
        return True

    health = ChildHealth(os.getpid(), probe, replace(QUICK, look_every_s=0.001, probe_every=3))
    assert wait_until(lambda: len(looks_at_probe) >= 2, timeout_s=WAIT_S)
    health.close()
    assert looks_at_probe[:2] == [3, 6]
