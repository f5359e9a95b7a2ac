"""Runtimes that import their libraries before a session asks. None has a model, a device or a
session's secret.

The reconciler that leads keeps TINKERSCRIPT_WARM of them, where MAX_RUNTIMES and memory leave room.
The next session without devices takes one, which is its runtime from then on and ends with it;
another is started in its place. What a runtime is to know of its session goes through a socket that
is inherited, and no other process can open. When this process ends, however it ends, the socket is
closed, and the runtimes that are still here end by themselves (gpu_runtime/loading/warm.py).

    started -> ready -> taken: a session's from then on
          \\-> over: it died, or there is no room, no memory, no reconciler for it any more
"""

import json
import logging
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from console.scheduling import processes
from console.scheduling.launchers.log_file import LOG, log_tail, older_log
from console.scheduling.launchers.process import MARK, WARM_MARK, ProcessLauncher
from console.scheduling.launchers.protocol import Handle
from console.scheduling.models import WarmRuntime
from console.sessions.limits.devices import devices_serving
from console.sessions.models import Session

log = logging.getLogger(__name__)

START_S = 120.0  # to be ready, before it imports
KILL_WAIT_S = 5.0
TAKE_S = 10.0  # until it answers that it has its session; it may be importing meanwhile
BACK_OFF_S, BACK_OFF_MAX_S = 10.0, 600.0  # between the death of one and the start of the next
COMMAND = (sys.executable, "-m", "gpu_runtime", "--wait")
# One holds about 1 GiB with what it has imported. It is started where a session of a small model
# fits beside it, and ended where there is little left.
GIB = 1 << 30
TO_START_BYTES, TO_KEEP_BYTES = 6 * GIB, 2 * GIB
READY, TAKEN = b'{"state": "ready"}\n', b'{"state": "taken"}\n'


@dataclass
class Warm:
    """A runtime without a session. ``child`` None: another process started it, or none did."""

    name: str
    folder: Path
    child: subprocess.Popen[bytes] | None

    def is_over(self) -> bool:
        """Kill it and all that it started; whether nothing of it was left.

        By its mark and by its session of processes: a process that gives itself a title may write
        it over its environment.
        """
        sid = self.child.pid if self.child else None
        living = [each for each in processes.processes_list() if each.state not in "ZX"]
        mark = f"{MARK}={self.name}"
        marked = {each.sid for each in living if processes.has_environment(each.pid, mark)}
        found = [each for each in living if each.sid in marked | {sid}]
        for each in found:
            processes.signal_send(each.pid, each.start_time, signal.SIGKILL)
        if found or (self.child and self.child.poll() is None):
            return False  # killed just now, or its threads are still on their way out
        shutil.rmtree(self.folder, ignore_errors=True)
        WarmRuntime.objects.filter(id=self.name).delete()
        return True


@dataclass
class Waiting(Warm):
    """One that this process started, and that a session may take once it is ready."""

    child: subprocess.Popen[bytes]
    link: socket.socket
    since: float
    is_ready: bool = False

    def has_sent(self, wanted: bytes, *, timeout_s: float) -> bool:
        """Whether it sends ``wanted`` within the time, and has not ended."""
        if not select.select([self.link], [], [], timeout_s)[0]:
            return False
        try:
            return self.link.recv(len(wanted)) == wanted
        except OSError:
            return False

    @property
    def has_ended(self) -> bool:
        """Looked at, not collected: until then its pid, which is also its session's, can be no
        other process's.
        """
        return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def memory_available() -> int:
    """Bytes that can be had without swapping."""
    return int(psutil.virtual_memory().available)


@dataclass
class SpareMemory:
    """Looked at twice a second; the log says once when it is short, and once when it is not any
    more.
    """

    available: Callable[[], int] = memory_available
    _is_short: bool = False

    def allows(self, *, kept: int) -> bool:
        """Whether one more may be started beside the ``kept``, or, where one is kept, that it may
        stay.
        """
        found, needed = self.available(), TO_KEEP_BYTES if kept else TO_START_BYTES
        is_short = found < needed
        if is_short and not self._is_short:
            log.warning(
                "no runtime waits with its libraries loaded: %.1f GiB of memory are available, and "
                "%.0f are needed; "
                "sessions start slower", found / GIB, TO_START_BYTES / GIB
            )  # fmt: skip
        elif self._is_short and not is_short:
            log.info(
                "a runtime with its libraries loaded is kept again: %.1f GiB are available",
                found / GIB,
            )
        self._is_short = is_short
        return not is_short


class WarmRuntimes:
    """``wanted`` is how many; ``folder`` is where they wait, one folder each."""

    def __init__(
        self,
        launcher: ProcessLauncher,
        wanted: int,
        folder: Path,
        *,
        command: Sequence[str] = COMMAND,
        clock: Callable[[], float] = time.monotonic,
        memory: SpareMemory | None = None,
    ) -> None:
        self._launcher, self._wanted, self._folder = launcher, wanted, folder
        self._command, self._clock, self._memory = list(command), clock, memory or SpareMemory()
        self._waiting: list[Waiting] = []
        self._ending: list[Warm] = []
        self._deaths, self._not_before = 0, 0.0  # deaths in a row

    def keep(self, *, room: int, may_start: bool) -> None:
        """One look: at most ``room`` of them, and another one if it ``may_start`` now.

        None where sessions have devices, whose processes are not forked, or where memory is short.
        """
        self._ending = [each for each in self._ending if not each.is_over()]
        for each in list(self._waiting):
            self._look(each)
        is_possible = not devices_serving() and self._memory.allows(kept=len(self._waiting))
        self.shrink(room=room if is_possible else 0)
        kept = len(self._waiting) + len(self._ending)
        if not (may_start and is_possible) or kept >= min(room, self._wanted):
            return
        if any(not each.is_ready for each in self._waiting):
            return  # where one does not start, another would not either
        if self._clock() >= self._not_before:
            self._start()

    def _look(self, each: Waiting) -> None:
        if each.has_ended or (not each.is_ready and self._clock() - each.since > START_S):
            lines = "\n".join(log_tail(each.folder / LOG, lines=20))
            if self._clock() - each.since > BACK_OFF_MAX_S:
                self._deaths = 0  # it had imported long before
            self._death(f"it ended or was not ready in time:\n{lines}")
            self._end(each)
        elif not each.is_ready and each.has_sent(READY, timeout_s=0):
            each.is_ready = True
            WarmRuntime.objects.filter(id=each.name).update(is_ready=True)

    def _start(self) -> None:
        name = f"warm-{secrets.token_hex(8)}"
        folder = self._folder / name
        ours, theirs = socket.socketpair()
        try:
            WarmRuntime.objects.create(id=name)
            handle = {"folder": str(folder), "gpus": 0, "devices": []}
            environment = {"TINKERSCRIPT_RUNTIME_DIR": str(folder)}
            child = self._launcher.spawn(
                self._command, handle, mark=name, environment=environment, stdin=theirs.fileno()
            )
        except OSError as error:  # its folder cannot be made, no more processes
            ours.close()
            self._death(str(error))
            self._kill(Warm(name, folder, child=None))
        else:
            self._waiting.append(Waiting(name, folder, child, ours, self._clock()))
        finally:
            theirs.close()

    def _death(self, why: str) -> None:
        """The next one is started later."""
        log.error("a warm runtime: %s", why)
        wait_s = min(BACK_OFF_S * 2 ** min(self._deaths, 10), BACK_OFF_MAX_S)
        self._not_before = self._clock() + wait_s
        self._deaths += 1

    def choose(self, session: Session) -> str | None:
        """The name of one that ``session`` can take."""
        if session.devices:
            return None
        return next((each.name for each in self._waiting if each.is_ready), None)

    def take(self, handle: Handle, environment: Mapping[str, str]) -> Handle | None:
        """The runtime that ``handle`` names as its "warm" becomes the session's; None where it did
        not.

        Raises OSError where it did not and lives still, SlowToEnd where an earlier runtime does.
        """
        chosen = next((each for each in self._waiting if each.name == handle.get("warm")), None)
        if chosen is None:
            return None
        self._launcher.others_end(handle)
        self._waiting.remove(chosen)
        WarmRuntime.objects.filter(id=chosen.name).delete()
        folder = Path(handle["folder"])
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / WARM_MARK).write_text(chosen.name)
        if (folder / LOG).exists():
            os.replace(folder / LOG, older_log(folder / LOG))
        os.replace(chosen.folder / LOG, folder / LOG)  # its processes go on writing to it
        message = {"folder": str(folder), "environment": {**environment, MARK: handle["launch"]}}
        try:
            chosen.link.sendall(json.dumps(message).encode() + b"\n")
            is_taken = chosen.has_sent(TAKEN, timeout_s=TAKE_S)
        except OSError:
            is_taken = False
        chosen.link.close()
        if is_taken:
            shutil.rmtree(chosen.folder, ignore_errors=True)
            return self._launcher.adopt(handle, chosen.child)
        log.error("warm runtime %s did not take its session; a new runtime is started", chosen.name)
        if not self._kill(chosen):
            raise OSError(
                f"the warm runtime {chosen.name} did not take the session, and is not gone yet"
            )
        return None

    def shrink(self, *, room: int) -> None:
        """End those for which there is no ``room``."""
        while len(self._waiting) > max(0, room):
            self._end(self._waiting[-1])

    def _end(self, each: Waiting) -> None:
        self._waiting.remove(each)
        each.link.close()
        WarmRuntime.objects.filter(id=each.name).update(is_ready=False)
        self._kill(each)

    def _kill(self, each: Warm) -> bool:
        """Whether it is gone, in some seconds; else every look tries again."""
        if processes.wait_until(each.is_over, timeout_s=KILL_WAIT_S):
            return True
        log.warning("what is left of the warm runtime %s is slow to end", each.name)
        self._ending.append(each)
        return False

    @property
    def is_changing(self) -> bool:
        """Whether one starts or ends, which the next look finds over."""
        return bool(self._ending) or any(not each.is_ready for each in self._waiting)

    def clear_predecessors(self) -> None:
        """Kill what a reconciler that was killed left: one that is stopped does not end by
        itself.
        """
        own = {each.name for each in self._ending}
        for name in WarmRuntime.objects.exclude(id__in=own).values_list("id", flat=True):
            self._kill(Warm(name, self._folder / name, child=None))
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """End all of them. The rows of those that are not gone yet are left to who leads next."""
        for each in list(self._waiting):
            self._end(each)
        self._ending = [each for each in self._ending if not each.is_over()]
