"""The children of ``manage.py up``: started, watched, restarted, ended in order, and cleared away
after a crash.

One that died is started again, and so is one that was stopped or responds no more.

Each child is its own process group, so that Ctrl-C reaches only us and we end them in order; the
kernel kills it when we die. Its pid and start time are kept in DATA/run, for a successor of an
``up`` that was killed.
"""

import ctypes
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import IO, Any

from django.conf import settings

from console.object_store import seaweedfs
from console.scheduling import processes
from console.scheduling.children.health import ChildHealth, Limits

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
BACK_OFF_S, BACK_OFF_MAX_S = 0.5, 10.0
STEADY_S = 30.0  # a child that ran this long has started well: its next death is a new story
KILL_WAIT_S = 5.0
_libc = ctypes.CDLL(None)


class Interrupted(KeyboardInterrupt):
    """A program that keeps children was asked to end. No ``except Exception`` on the way keeps it,
    and a statement that waits in PostgreSQL is cancelled."""


class Signals:
    """Of a program that keeps children. From its construction on a signal ends ``wait``, the end of
    a child too."""

    def __init__(self) -> None:
        self.asked = 0  # how often we were asked to end
        self._interrupts = False
        # whose put a handler may call at any moment
        self._arrived: SimpleQueue[int] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self._on_signal)

    def wait(self, timeout_s: float) -> None:
        """Until a signal arrives, at most so long. One that arrived since the last wait ends it
        immediately."""
        with suppress(Empty):
            self._arrived.get(timeout=timeout_s)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within it a request to end raises Interrupted, one that came before it too: for what may
        wait for others for long, and can be broken off anywhere.
        """
        self._interrupts = True
        try:
            if self.asked:
                raise Interrupted
            yield
        finally:
            self._interrupts = False

    def _on_signal(self, number: int, _: object) -> None:
        self._arrived.put(number)
        if number == signal.SIGCHLD:
            return
        self.asked += 1
        if self._interrupts:
            self._interrupts = False  # once: the next one is not to break off what clears up
            raise Interrupted


class AlreadyRunning(RuntimeError):
    """Another ``up`` serves this folder."""


def lock_take(folder: Path) -> IO[str]:
    """Hold the folder for as long as the file stays open. Raises AlreadyRunning."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "up.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip()
        file.close()
        raise AlreadyRunning(holder) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def die_with_parent() -> None:
    """For a child, between fork and exec: be killed when the parent dies, however it dies."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()


def python_start(
    *arguments: str, keep: Sequence[int] = (), more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[bytes]:
    """A process of this Python, which ends with us; ``keep`` are descriptors that it inherits."""
    path = os.pathsep.join([str(settings.BASE_DIR), str(settings.BASE_DIR / "sdk")])
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "console.settings",
        # a relative one would mean another folder to a child
        "TINKERSCRIPT_DATA": str(settings.DATA),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
        **more,
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=keep,
        preexec_fn=die_with_parent,
    )


def store_start() -> subprocess.Popen[bytes]:
    """The embedded store as a child process, which appends to its log."""
    path = seaweedfs.log_path(settings.DATA)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        return seaweedfs.start(settings.DATA, log=file.fileno(), preexec=die_with_parent)


@dataclass
class Child:
    """A child process and how to start it. ``grace_s``: how long it may take to end.

    ``probe`` returns whether it works, within a deadline of its own; without one only a stopped
    process is noticed.
    """

    name: str
    spawn: Callable[[], subprocess.Popen[bytes]]
    grace_s: float
    probe: Callable[[], bool] | None = None
    process: subprocess.Popen[bytes] | None = None
    health: ChildHealth | None = None
    started_at: float = 0.0
    deaths: int = 0
    not_before: float = field(default=0.0)


class Supervisor:
    """Children in the order of their start. ``folder`` keeps their handles."""

    def __init__(self, folder: Path, *, limits: Limits = Limits()) -> None:
        self._folder, self._limits = folder, limits
        self._children: list[Child] = []

    def clear_predecessors(self) -> None:
        """Kill what an ``up`` that was killed left behind (the kernel does so too; this holds where
        it does not).
        """
        for path in self._folder.glob("*.json"):
            with suppress(ValueError, KeyError):
                handle = json.loads(path.read_text())
                if processes.signal_send(handle["pid"], handle["start_time"], signal.SIGKILL):
                    log.warning("killed %s (pid %d) of an earlier run", path.stem, handle["pid"])
                    processes.wait_until(partial(_is_gone, handle), timeout_s=KILL_WAIT_S)
            path.unlink()

    def start(self, child: Child) -> None:
        """Start a child and watch it from now on."""
        self._children.append(child)
        self._spawn(child)

    def restart_dead(self) -> None:
        """Look once at every child and start again those that died, later each time one dies
        young.
        """
        now = time.monotonic()
        for child in self._children:
            self._kill_unhealthy(child)
            if child.process is not None and child.process.poll() is not None:
                code = child.process.returncode
                child.process = None
                self._forget_health(child)
                child.deaths = 1 if now - child.started_at > STEADY_S else child.deaths + 1
                wait_s = min(BACK_OFF_S * 2 ** (child.deaths - 1), BACK_OFF_MAX_S)
                child.not_before = now + wait_s
                log.error("%s ended with code %d; again in %.1f s", child.name, code, wait_s)
            if child.process is None and now >= child.not_before:
                try:
                    self._spawn(child)
                except OSError as error:  # a full disk, no process or file left: it is tried again
                    child.not_before = now + BACK_OFF_MAX_S
                    log.error(
                        "%s could not be started: %s; again in %g s",
                        child.name,
                        error,
                        BACK_OFF_MAX_S,
                    )

    def stop(self, *names: str, force: Callable[[], bool]) -> None:
        """End these children together: asked first, killed after their grace or as soon as
        ``force()``.
        """
        ending = [child for child in self._children if child.name in names]
        for child in ending:
            self._children.remove(child)
            self._forget_health(child)
            if child.process is not None:
                child.process.terminate()
                child.process.send_signal(signal.SIGCONT)  # one that was stopped would not hear it
        asked_at = time.monotonic()
        for child in ending:
            if (process := child.process) is not None:
                left_s = asked_at + child.grace_s - time.monotonic()
                if not processes.wait_until(
                    partial(_has_ended, process, force), timeout_s=max(0.0, left_s)
                ):
                    log.warning(
                        "%s did not end within %g s: it is killed", child.name, child.grace_s
                    )
                with suppress(ProcessLookupError):
                    # the whole group: it may have children of its own
                    os.killpg(process.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        for child in ending:
            if child.process is not None:
                _wait_killed(child, until=killed_at + KILL_WAIT_S)
            self._path(child).unlink(missing_ok=True)

    def _kill_unhealthy(self, child: Child) -> None:
        if child.process is None or child.health is None or child.health.problem is None:
            return
        log.error("%s %s: it is killed and started again", child.name, child.health.problem)
        self._forget_health(child)
        with suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        _wait_killed(child, until=time.monotonic() + KILL_WAIT_S)

    def _forget_health(self, child: Child) -> None:
        if child.health is not None:
            child.health.close()
            child.health = None

    def _spawn(self, child: Child) -> None:
        child.started_at = time.monotonic()
        child.process = child.spawn()
        child.health = ChildHealth(child.process.pid, child.probe, self._limits)
        try:
            self._keep_handle(child)
        except (
            OSError
        ) as error:  # a full disk: the kernel kills the child when we are killed, handle or not
            log.warning("the handle of %s could not be kept: %s", child.name, error)

    def _keep_handle(self, child: Child) -> None:
        assert child.process is not None
        stat = processes.stat_get(child.process.pid)
        beside = self._folder / f"{child.name}.new"
        beside.write_text(json.dumps({"pid": stat.pid, "start_time": stat.start_time}))
        # one who reads it finds the old handle or the new one, whole
        os.replace(beside, self._path(child))

    def _path(self, child: Child) -> Path:
        return self._folder / f"{child.name}.json"


def _wait_killed(child: Child, *, until: float) -> None:
    """A process in the middle of a system call ends after it, SIGKILL or not: it is left after a
    while, and logged.
    """
    assert child.process is not None
    try:
        child.process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        log.error("%s (pid %d) was killed and has not ended", child.name, child.process.pid)


def _has_ended(process: subprocess.Popen[bytes], force: Callable[[], bool]) -> bool:
    return process.poll() is not None or force()


def _is_gone(handle: dict[str, Any]) -> bool:
    return not processes.is_running(handle["pid"], handle["start_time"])
