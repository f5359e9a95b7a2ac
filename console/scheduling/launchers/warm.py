"""Runtimes that load before a session asks: each has engine and trainer of a base model, and no session's secret.

Those of ``ANY`` base model have imported their libraries, or are about to: the first session without devices takes one.
The reconciler that leads keeps as many as TINKERSCRIPT_WARM says, where MAX_RUNTIMES leaves room. A session of the base
model takes one, which is its runtime from then on and ends with it; another is started in its place. What a runtime is
to know of its session goes through a socket that is inherited, and no other process can open. When this process ends,
however it ends, the socket is closed, and the runtimes that are still here end by themselves
(gpu_runtime/loading/warm.py).
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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from console.catalogue.base_models import base_model_resolve
from console.errors import DomainError
from console.scheduling import processes
from console.scheduling.launchers.log_file import LOG, log_tail, older_log
from console.scheduling.launchers.options import ANY
from console.scheduling.launchers.process import MARK, SHARED_MEMORY, WARM_MARK, ProcessLauncher
from console.scheduling.launchers.protocol import Handle
from console.scheduling.launchers.spare_memory import SpareMemory
from console.scheduling.models import WarmRuntime
from console.sessions.limits.devices import devices_serving, devices_warm
from console.sessions.models import Session
from tinkerscript.wire.sessions import SessionKind

log = logging.getLogger(__name__)

LOAD_S = 900.0  # to be ready
KILL_WAIT_S = 5.0
TAKE_S = 10.0  # until it says that it is a session's; it may be importing meanwhile
BACK_OFF_S, BACK_OFF_MAX_S = 10.0, 600.0  # between the death of one and the start of the next
COMMAND = (sys.executable, "-m", "gpu_runtime")
READY, TAKEN = b'{"state": "ready"}\n', b'{"state": "taken"}\n'


def warm_kill(name: str, sid: int | None = None) -> bool:
    """Kill a runtime of this mark, with all that it started in its session of processes; whether there was something.

    By the session too: a process that gives itself a title may write it over its environment.
    """
    living = [process for process in processes.processes_list() if process.state not in "ZX"]
    marked = {it.sid for it in living if processes.has_environment(it.pid, f"{MARK}={name}")}
    found = [process for process in living if process.sid in marked | {sid}]
    for process in found:
        processes.signal_send(process.pid, process.start_time, signal.SIGKILL)
    return bool(found)


@dataclass
class Waiting:
    """One runtime without a session."""

    name: str
    base_model: str
    devices: list[str]
    folder: Path
    child: subprocess.Popen[bytes]
    link: socket.socket
    since: float
    is_ready: bool = False

    def said(self, wanted: bytes, *, timeout_s: float) -> bool:
        """Whether it says ``wanted`` within the time, and it is not over."""
        if not select.select([self.link], [], [], timeout_s)[0]:
            return False
        try:
            return self.link.recv(len(wanted)) == wanted
        except OSError:
            return False

    @property
    def has_ended(self) -> bool:
        """Looked at, not collected: until then its pid, which is also its session's, can be no other process's."""
        return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@dataclass
class Ending:
    """One that is to be gone; its devices are its own until nothing of it lives. ``child`` None: not this process's."""

    name: str
    folder: Path
    child: subprocess.Popen[bytes] | None = None

    def is_over(self) -> bool:
        """Kill it and all that it started; whether nothing of it was left, and its devices are free now."""
        if warm_kill(self.name, self.child.pid if self.child else None):
            return False
        if self.child and self.child.poll() is None:
            return False  # its threads are still on their way out
        # Weights of a rehearsal, which a runtime that was killed could not remove: handover_folder.py.
        for left in (self.folder, *SHARED_MEMORY.glob(f"tinkerscript-{self.name}-*")):
            shutil.rmtree(left, ignore_errors=True)
        WarmRuntime.objects.filter(id=self.name).delete()
        return True


class WarmRuntimes:
    """``wanted`` says how many of each base model; ``folder`` is where they wait, one folder each."""

    def __init__(
        self,
        launcher: ProcessLauncher,
        wanted: Mapping[str, int],
        folder: Path,
        *,
        command: Sequence[str] = COMMAND,
        clock: Callable[[], float] = time.monotonic,
        memory: SpareMemory | None = None,
    ) -> None:
        self._launcher, self._wanted, self._folder = launcher, dict(wanted), folder
        self._command, self._clock, self._memory = list(command), clock, memory or SpareMemory()
        self._waiting: list[Waiting] = []
        self._ending: list[Ending] = []
        self._deaths: Counter[str] = Counter()  # in a row, by base model
        self._not_before: dict[str, float] = {}

    def clear_predecessors(self) -> None:
        """Kill what a reconciler that was killed left: one that is stopped does not end by itself."""
        own = {each.name for each in self._ending}
        for name in WarmRuntime.objects.exclude(id__in=own).values_list("id", flat=True):
            self._kill(Ending(name, self._folder / name))
        shutil.rmtree(self._folder, ignore_errors=True)

    def keep(self, *, room: int, may_start: bool, known: Sequence[str]) -> None:
        """One look: at most ``room`` of them, and another one if it ``may_start`` now.

        ``known`` are this machine's devices.
        """
        self._ending = [each for each in self._ending if not each.is_over()]
        for each in list(self._waiting):
            self._look(each)
        self.shrink(room=room)
        wanted = self._wanted_now()
        if not may_start or len(self._waiting) + len(self._ending) >= room:
            return
        if any(not each.is_ready for each in self._waiting):
            return  # one after the other: two would load more slowly than that
        for base_model, count in wanted.items():
            held_back = self._clock() < self._not_before.get(base_model, 0.0)
            if not held_back and sum(each.base_model == base_model for each in self._waiting) < count:
                self._start(base_model, known)
                return

    @property
    def is_changing(self) -> bool:
        """Whether one loads or ends, which the next look finds over."""
        return bool(self._ending) or any(not each.is_ready for each in self._waiting)

    def shrink(self, *, room: int) -> None:
        """End those for which there is no ``room``."""
        while len(self._waiting) > max(0, room):
            self._end(self._waiting[-1])

    def choose(self, session: Session) -> str | None:
        """The name of one that ``session`` can take: of its own base model, else of any."""
        devices = session.devices
        trains_base = session.kind == SessionKind.EPISODES and not session.served_checkpoint_id
        fits = {ANY: devices == 0, session.base_model: trains_base}
        found = [
            each
            for each in self._waiting
            if each.is_ready and fits.get(each.base_model, False) and len(each.devices) == devices
        ]
        return min(found, key=lambda each: each.base_model == ANY).name if found else None

    def describe(self, name: str) -> str:
        """What the one of this name has, for the record of the session that takes it."""
        is_any = any(each.name == name and each.base_model == ANY for each in self._waiting)
        return "a runtime that waited with its libraries" if is_any else "a warm runtime"

    def take(self, handle: Handle, environment: Mapping[str, str]) -> Handle | None:
        """The runtime that ``handle`` names as its "warm" becomes the session's; None where it did not.

        Raises OSError where it did not and has the devices still, SlowToEnd where an earlier runtime has them.
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
            is_taken = chosen.said(TAKEN, timeout_s=TAKE_S)
        except OSError:
            is_taken = False
        if not is_taken:
            log.error("warm runtime %s did not take its session; a new runtime is started", chosen.name)
            chosen.link.close()
            if not self._kill(Ending(chosen.name, chosen.folder, chosen.child)):
                raise OSError(f"the warm runtime {chosen.name} did not take the session, and is not gone yet")
            return None
        chosen.link.close()
        shutil.rmtree(chosen.folder, ignore_errors=True)
        return self._launcher.adopt(handle, chosen.child)

    def give_way(self) -> None:
        """A session needs devices: end those that hold some."""
        for each in [each for each in self._waiting if each.devices]:
            self._end(each)

    def close(self) -> None:
        """End all of them. The rows of those that are not gone yet are left to who leads next."""
        for each in list(self._waiting):
            self._end(each)
        self._ending = [each for each in self._ending if not each.is_over()]

    def _wanted_now(self) -> dict[str, int]:
        """How many of each; none of any base model where sessions have devices or memory is short: those end."""
        ready = [each for each in self._waiting if each.base_model == ANY]
        if ANY not in self._wanted or (not devices_serving() and self._memory.allows(kept=len(ready))):
            return self._wanted
        for each in ready:
            self._end(each)
        return {base_model: count for base_model, count in self._wanted.items() if base_model != ANY}

    def _start(self, base_model: str, known: Sequence[str]) -> None:
        name = f"warm-{secrets.token_hex(8)}"
        folder = self._folder / name
        ours, theirs = socket.socketpair()
        try:
            model = "" if base_model == ANY else base_model_resolve(base_model).path
            WarmRuntime.objects.create(id=name, base_model=base_model)
            devices = [] if base_model == ANY else devices_warm(warm_id=name, known=known)
            if devices is None:
                ours.close()
                WarmRuntime.objects.filter(id=name).delete()
                return
            handle = {"folder": str(folder), "gpus": len(devices), "devices": devices}
            environment = {"TINKERSCRIPT_RUNTIME_DIR": str(folder), "TINKERSCRIPT_WARM_MODEL": model}
            if settings.TRACES_URL:  # its session's assignment says where to, after the engine has loaded
                environment["TINKERSCRIPT_RUNTIME_TRACED"] = "1"
            child = self._launcher.spawn(
                self._command, handle, mark=name, environment=environment, stdin=theirs.fileno()
            )
        except (DomainError, OSError) as error:  # its model is gone, its folder cannot be made, no more processes
            ours.close()
            self._death(base_model, str(error))
            self._kill(Ending(name, folder))
        else:
            self._waiting.append(Waiting(name, base_model, devices, folder, child, ours, self._clock()))
        finally:
            theirs.close()

    def _look(self, each: Waiting) -> None:
        if each.has_ended or (not each.is_ready and self._clock() - each.since > LOAD_S):
            lines = "\n".join(log_tail(each.folder / LOG, lines=20))
            self._death(each.base_model, f"it ended or was not ready in time:\n{lines}")
            self._end(each)
        elif not each.is_ready and each.said(READY, timeout_s=0):
            each.is_ready = True
            del self._deaths[each.base_model]
            WarmRuntime.objects.filter(id=each.name).update(is_ready=True)

    def _death(self, base_model: str, why: str) -> None:
        """The next of this base model is started later; those of others are not."""
        log.error("a warm runtime of %s: %s", base_model, why)
        wait_s = min(BACK_OFF_S * 2 ** min(self._deaths[base_model], 10), BACK_OFF_MAX_S)
        self._deaths[base_model] += 1
        self._not_before[base_model] = self._clock() + wait_s

    def _end(self, each: Waiting) -> None:
        self._waiting.remove(each)
        each.link.close()
        WarmRuntime.objects.filter(id=each.name).update(is_ready=False)
        self._kill(Ending(each.name, each.folder, each.child))

    def _kill(self, each: Ending) -> bool:
        """Whether it is gone, in some seconds; else every look tries again, and its devices are not given out."""
        if processes.wait_until(each.is_over, timeout_s=KILL_WAIT_S):
            return True
        log.warning("what is left of the warm runtime %s is slow to end; it keeps its devices until then", each.name)
        self._ending.append(each)
        return False
