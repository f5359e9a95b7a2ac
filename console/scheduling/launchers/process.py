"""Runtimes as processes of this machine. They outlive the reconciler, whose successor finds them by
their handles.

A handle is {"launch", "folder", "gpus", "devices"} before the start; after it "pid" and
"start_time" are there too. Every process of a runtime carries the launch in its environment, which
finds those that left the runtime's process group too. One that was started before it had a session
(warm.py) carries another mark: the handle's "warm", and it is kept in the session's folder for
launches whose handles are gone.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.conf import settings

from console.config.data_folder import COMPILED_FOLDER
from console.scheduling import processes
from console.scheduling.launchers.log_file import LOG, log_tail
from console.scheduling.launchers.protocol import (
    Handle,
    Launcher,
    RuntimeStatus,
    SlowToEnd,
    amounts_environment,
    launch_owner,
)
from console.scheduling.processes import ProcessStat

MARK = "TINKERSCRIPT_LAUNCH"
# a file of the session's folder: the mark of its last runtime that was started before it
WARM_MARK = "warm_launch"
# Programs that torch compiles for one runtime serve the next. By default they lie in the system's
# folder for temporary files, under a name that another user of the machine could take first: what
# is found there is loaded and run.
COMPILED = "TORCHINDUCTOR_CACHE_DIR"
KILL_WAIT_S = 5.0
SHARED_MEMORY = Path("/dev/shm")
# a gateway holds one connection per call in flight; the usual soft limit is 1,024
OPEN_FILES = 65_536
# Out of memory, the kernel ends a runtime (which restarts from its last state) before the server
# (which serves all).
OOM_SCORE_ADJ = 500
# What the server knows and a runtime must not: secrets of the database, the store and the signing
# of keys.
PRIVATE = ("TINKERSCRIPT_", "S3_", "AWS_", "WEED_", "DATABASE_URL", "REDIS_URL", "DJANGO_")


class ProcessLauncher(Launcher):
    """Starts ``python -m gpu_runtime`` in a session (process group) of its own.

    ``memory_bytes`` bounds the private memory of each of its processes, ``cpus`` the threads that
    each computes with.
    """

    name = "process"

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, "-m", "gpu_runtime"),
        *,
        memory_bytes: int | None = None,
        cpus: int | None = None,
    ) -> None:
        self._command = list(command)
        self._memory_bytes, self._cpus = memory_bytes, cpus
        self._children: dict[str, subprocess.Popen[bytes]] = {}  # by launch: ours to collect
        # launches, and owners of launches, that were killed and are not gone yet
        self._slow: set[str] = set()

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        self.others_end(handle)
        if started := self._members(handle):
            leader = min(started, key=lambda process: process.start_time)
            return handle | {"pid": leader.pid, "start_time": leader.start_time}
        child = self.spawn(
            self._command,
            handle,
            mark=handle["launch"],
            environment=environment,
            stdin=subprocess.DEVNULL,
        )
        return self.adopt(handle, child)

    def spawn(
        self,
        command: Sequence[str],
        handle: Handle,
        *,
        mark: str,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """A process of this launcher in the folder of ``handle``, with its bounds. Raises
        OSError.
        """
        folder = Path(handle["folder"])
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)
        }
        own = {
            "PYTHONPATH": code_path(),
            "PYTHONUNBUFFERED": "1",
            MARK: mark,
            COMPILED: inherited.get(COMPILED) or str(settings.DATA / COMPILED_FOLDER),
            # Exactly the devices of the handle are visible, and none where it names none; in the order in
            # which the indices were counted, as CUDA's own is by speed.
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(handle["devices"]),
            **amounts_environment(handle["gpus"], self._cpus),
        }
        with (folder / LOG).open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=folder,
                env=inherited | own | dict(environment),
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._limit(child.pid)
        return child

    def adopt(self, handle: Handle, child: subprocess.Popen[bytes]) -> Handle:
        """``child`` is the runtime of ``handle`` from now on; the handle, completed."""
        self._children[handle["launch"]] = child
        # there for certain: even an ended child stays until we collect it
        stat = processes.stat_get(child.pid)
        return handle | {"pid": child.pid, "start_time": stat.start_time}

    def inspect(self, handle: Handle) -> RuntimeStatus:
        child = self._children.get(handle["launch"])
        if child is not None:
            # Looked at, not collected: while it is not, its pid and group belong to it and `stop`
            # can clear them.
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return RuntimeStatus("running")
            return RuntimeStatus(
                "exited", ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            )
        if "pid" in handle:
            return RuntimeStatus(
                "running" if processes.is_running(handle["pid"], handle["start_time"]) else "gone"
            )
        return RuntimeStatus("running" if self._members(handle) else "gone")

    def address(self, handle: Handle, *, port: int) -> str:
        """On loopback, where every other service of this machine listens too: the runtime has to
        hold the socket.
        """
        holds_it = any(
            processes.listens_on_loopback(member.pid, port) for member in self._members(handle)
        )
        return f"127.0.0.1:{port}" if holds_it else ""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        launch = handle["launch"]
        if grace_s > 0 and launch not in self._slow and self.inspect(handle).state == "running":
            # The leader alone: it ends its engine and ranks in the right order, if it can.
            leaders = [
                m for m in self._members(handle) if "pid" not in handle or m.pid == handle["pid"]
            ]
            for leader in leaders:
                processes.signal_send(leader.pid, leader.start_time, signal.SIGTERM)
            processes.wait_until(lambda: self.inspect(handle).state != "running", timeout_s=grace_s)
        # One that was slow before is only looked at: a tick of the reconciler must not wait for it
        # every time.
        if not processes.wait_until(
            lambda: self._is_over(handle), timeout_s=0 if launch in self._slow else KILL_WAIT_S
        ):
            self._slow.add(launch)
            raise SlowToEnd(
                f"what is left of {launch} is slow to end; it keeps its devices until then"
            )
        self._slow.discard(launch)
        # Weights on their way to the engine, which a runtime that was killed could not remove:
        # handover_folder.py.
        for left in SHARED_MEMORY.glob(f"tinkerscript-{Path(handle['folder']).name}-*"):
            shutil.rmtree(left, ignore_errors=True)

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        return log_tail(Path(handle["folder"]) / LOG, lines=lines)

    def _members(self, handle: Handle) -> list[ProcessStat]:
        """The living processes of a launch: those of its session while its leader is known, and the
        marked ones.
        """
        leader = processes.stat_read(handle["pid"]) if "pid" in handle else None
        session = handle["pid"] if _is_leader(leader, handle) else None
        marks = [f"{MARK}={handle[name]}" for name in ("launch", "warm") if handle.get(name)]
        return [
            process
            for process in processes.processes_list()
            if process.state not in "ZX"
            and (process.sid == session or processes.has_environment(process.pid, *marks))
        ]

    def _is_over(self, handle: Handle) -> bool:
        """Kill it and all that it started; whether nothing of it was left."""
        members = self._members(handle)
        for process in members:
            processes.signal_send(process.pid, process.start_time, signal.SIGKILL)
        if members:
            return False
        if child := self._children.get(handle["launch"]):
            if child.poll() is None:
                return False
            del self._children[handle["launch"]]
        return True

    def others_end(self, handle: Handle) -> None:
        """Kill what other launches of this session left, and wait until it is gone: it holds
        devices and memory.

        A reconciler that lost the lease may have started one. Raises SlowToEnd while it is not
        gone.
        """
        owner = launch_owner(handle["launch"])
        others = f"{MARK}={owner}-"
        mine = [f"{MARK}={handle[name]}" for name in ("launch", "warm") if handle.get(name)]
        warm = f"{MARK}={_text(Path(handle['folder']) / WARM_MARK) or 'none'}"
        left = [
            process
            for process in processes.processes_list()
            if processes.environment_find(process.pid, others) not in (None, mine[0])
            or (warm not in mine and processes.has_environment(process.pid, warm))
        ]
        for process in left:
            processes.signal_send(process.pid, process.start_time, signal.SIGKILL)
        if not processes.wait_until(
            lambda: (
                not any(processes.is_running(process.pid, process.start_time) for process in left)
            ),
            timeout_s=0 if owner in self._slow else KILL_WAIT_S,
        ):
            self._slow.add(owner)
            raise SlowToEnd("what is left of an earlier runtime of this session is slow to end")
        self._slow.discard(owner)

    def _limit(self, pid: int) -> None:
        """No core dumps (they would hold weights and a lease), and bounds; what it starts inherits
        them.

        From here and not in the child before its program: the server has threads, whose locks a
        fork leaves locked.
        """
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            files = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, hard))
            if self._memory_bytes is not None:
                # Not RLIMIT_AS: CUDA and torch reserve far more addresses than they ever fill.
                resource.prlimit(
                    pid, resource.RLIMIT_DATA, (self._memory_bytes, self._memory_bytes)
                )
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE_ADJ))


def code_path() -> str:
    """The PYTHONPATH that finds ``gpu_runtime`` and ``tinkerscript`` in this checkout."""
    return os.pathsep.join([str(settings.BASE_DIR), str(settings.BASE_DIR / "sdk")])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _is_leader(stat: ProcessStat | None, handle: Handle) -> bool:
    return stat is not None and stat.start_time == handle.get("start_time")
