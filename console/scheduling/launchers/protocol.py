"""What the reconciler asks of whatever starts runtimes."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Handle = dict[str, Any]  # JSON: it is kept in the session's row and read by the next reconciler

GATEWAY_PORT = 7000  # where a runtime with a network address of its own listens


class LauncherUnavailable(Exception):
    """The engine (Docker, Kubernetes, Slurm) does not answer. What became of its runtimes is not
    known now.
    """


class MachinesShort(OSError):
    """A cluster that exists has too few machines, or too small ones, for a runtime. One that ran
    there may again: a machine that is lost comes back, or another does.
    """


class SlowToEnd(LauncherUnavailable):
    """What is left of a runtime was killed and is not gone. From ``start``: of an earlier one;
    nothing was started.
    """


@dataclass(frozen=True)
class Resources:
    """What one runtime may use; None is as much as there is."""

    memory_bytes: int | None = None
    cpus: int | None = None
    gpus: int | None = None  # of a session that names no number
    # of each, as the operator says; None: not known before a start
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True)
class RuntimeStatus:
    """What became of a runtime. ``code`` is its exit code where the launcher could learn it
    (negative: a signal).

    ``waiting`` is alive too: the engine accepted it and has no place for it yet, for the ``reason``
    it gives. ``running`` with a ``reason`` is lost, unless it holds its lease still.
    """

    state: Literal["waiting", "running", "exited", "gone"]
    code: int | None = None
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether it runs or will."""
        return self.state in ("waiting", "running")


class Launcher(Protocol):
    """Starts, sees and ends runtimes; the base of each launcher, whose missing methods mypy names.
    Every call returns within its grace plus a few seconds.

    A launch is found by the name in its handle alone, so that nothing depends on who started it.
    Every call but ``new_handle`` raises LauncherUnavailable while the engine cannot be asked; an
    engine that is away is never taken for a runtime that is gone.
    """

    name: str

    @staticmethod
    def new_handle(
        *,
        session_id: str,
        instance_id: str,
        folder: Path,
        gpus: int = 0,
        devices: Sequence[str] = (),
    ) -> Handle:
        """The handle of a runtime that is not started yet, with ``gpus`` devices.

        ``devices`` names them where the launcher's row ``names_devices``; elsewhere the cluster
        chooses.

        It is stored before ``start``, so that a reconciler that dies in between leaves nothing that
        its successor cannot find. No other launch has its name: the session, the server, and 32
        random bits.
        """
        launch = f"{session_id}-{instance_id}-{secrets.token_hex(4)}"
        return {"launch": launch, "folder": str(folder), "gpus": gpus, "devices": list(devices)}

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        """Start it, or find the one that was started for this handle before; the handle, completed.

        What is left of the session's earlier launches is ended first. Raises SlowToEnd while that
        is not gone, MachinesShort where the cluster has no room for it as it is now, OSError when
        it cannot be started.
        """
        ...

    def others_end(self, handle: Handle) -> None:
        """End what is left of other launches of the session, by this server: ``start`` does so
        first.

        Raises SlowToEnd while that is not gone.
        """
        ...

    def inspect(self, handle: Handle) -> RuntimeStatus:
        """Whether it runs."""
        ...

    def address(self, handle: Handle, *, port: int) -> str:
        """host:port of the gateway of a runtime that says that it listens on ``port``.

        The host is what the launcher knows, never what the runtime says: requests are sent there.
        Empty while it is not known, and where this runtime is not the one that listens there.
        """
        ...

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        """Ask it to end, end it after ``grace_s``, and everything it started with it. Safe on one
        that is gone.

        Where the row ``names_devices``: raises SlowToEnd while something of it lives, for it has
        its devices then. Elsewhere the cluster knows whose they are. A call after that one only
        looks: it waits no more.
        """
        ...

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        """The last lines it wrote."""
        ...


def launch_session(launch: str) -> str:
    """The session that a launch belongs to."""
    return launch.partition("-")[0]


def launch_instance(launch: str) -> str:
    """The server that launched it."""
    return launch.split("-")[1]


def launch_owner(launch: str) -> str:
    """What every launch of one session by one server begins with. Those of a copy of the server
    begin otherwise.
    """
    return launch.rpartition("-")[0]


def amounts_environment(gpus: int, cpus: int | None) -> dict[str, str]:
    """What tells a runtime how many devices it has, and its share of the machine's processors where
    its kernel does not.
    """
    shares = {} if cpus is None else {"TINKERSCRIPT_RUNTIME_CPUS": str(cpus)}
    return {"TINKERSCRIPT_RUNTIME_GPUS": str(gpus), **shares}
