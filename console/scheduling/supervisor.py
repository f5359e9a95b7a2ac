"""The children of ``manage.py up``: started, watched, restarted, ended in order, and cleared away after a crash.

Each child is its own process group, so that Ctrl-C reaches only us and we end them in order; the kernel kills it when
we die. Its pid and start time are kept in DATA/run, for a successor of an ``up`` that was killed.
"""

import ctypes
import fcntl
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from console.scheduling import processes

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
BACK_OFF_S, BACK_OFF_MAX_S = 0.5, 10.0
STEADY_S = 30.0  # a child that ran this long has started well: its next death is a new story
KILL_WAIT_S = 5.0
_libc = ctypes.CDLL(None)


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


@dataclass
class Child:
    """A child process and how to start it. ``grace_s``: how long it may take to end."""

    name: str
    spawn: Callable[[], subprocess.Popen[bytes]]
    grace_s: float
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    deaths: int = 0
    not_before: float = field(default=0.0)


class Supervisor:
    """Children in the order of their start. ``folder`` keeps their handles."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def clear_predecessors(self) -> None:
        """Kill what an ``up`` that was killed left behind (the kernel does so too; this holds where it does not)."""
        for path in self._folder.glob("*.json"):
            with suppress(ValueError, KeyError):
                handle = json.loads(path.read_text())
                if processes.signal_send(handle["pid"], handle["start_time"], signal.SIGKILL):
                    log.warning("killed %s (pid %d) of an earlier run", path.stem, handle["pid"])
                    gone = lambda handle=handle: not processes.is_running(handle["pid"], handle["start_time"])  # noqa: E731
                    processes.wait_until(gone, timeout_s=KILL_WAIT_S)
            path.unlink()

    def start(self, child: Child) -> None:
        """Start a child and watch it from now on."""
        self._children.append(child)
        self._spawn(child)

    def tend(self) -> None:
        """One look at everybody: who died is started again, later each time it dies young."""
        now = time.monotonic()
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                code = child.process.returncode
                child.process = None
                child.deaths = 1 if now - child.started_at > STEADY_S else child.deaths + 1
                wait_s = min(BACK_OFF_S * 2 ** (child.deaths - 1), BACK_OFF_MAX_S)
                child.not_before = now + wait_s
                log.error("%s ended with code %d; again in %.1f s", child.name, code, wait_s)
            if child.process is None and now >= child.not_before:
                self._spawn(child)

    def stop(self, name: str, *, hurry: Callable[[], bool]) -> None:
        """End a child: asked first, killed after its grace or as soon as ``hurry()``."""
        for child in [child for child in self._children if child.name == name]:
            self._children.remove(child)
            process = child.process
            if process is not None:
                process.terminate()
                processes.wait_until(lambda p=process: p.poll() is not None or hurry(), timeout_s=child.grace_s)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # the whole group: it may have children of its own
                process.wait(KILL_WAIT_S)
            self._path(child).unlink(missing_ok=True)

    def is_up(self, name: str) -> bool:
        """Whether the child of this name runs now."""
        return any(c.name == name and c.process is not None and c.process.poll() is None for c in self._children)

    def _spawn(self, child: Child) -> None:
        child.started_at = time.monotonic()
        child.process = child.spawn()
        stat = processes.stat_read(child.process.pid)
        self._path(child).write_text(json.dumps({"pid": stat.pid, "start_time": stat.start_time}))

    def _path(self, child: Child) -> Path:
        return self._folder / f"{child.name}.json"
