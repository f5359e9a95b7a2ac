"""What the reconciler asks of whatever starts runtimes."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Handle = dict[str, Any]  # JSON: it is kept in the session's row and read by the next reconciler

GATEWAY_PORT = 7000  # where a runtime with a network address of its own listens


class LauncherAway(Exception):
    """The engine (Docker, Kubernetes, Slurm) does not answer. What became of its runtimes is not known now."""


@dataclass(frozen=True)
class Resources:
    """What one runtime may use; None is as much as there is."""

    memory_bytes: int | None = None
    cpus: int | None = None
    gpus: int = 0


@dataclass(frozen=True)
class Sight:
    """What became of a runtime. ``code`` is its exit code where the launcher could learn it (negative: a signal).

    ``waiting`` is alive too: the engine accepted it and has no place for it yet, for the ``reason`` it gives.
    """

    state: Literal["waiting", "running", "exited", "gone"]
    code: int | None = None
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether it runs or will."""
        return self.state in ("waiting", "running")


class Launcher(Protocol):
    """Starts, sees and ends runtimes. Every call returns within its grace plus a few seconds.

    A launch is found by the name in its handle alone, so that nothing depends on who started it. Every call but
    ``plan`` raises LauncherAway while the engine cannot be asked; an engine that is away is never taken for a runtime
    that is gone.
    """

    name: str

    def plan(self, *, session_id: str, folder: Path) -> Handle:
        """The handle of a runtime that is not started yet.

        It is stored before ``start``, so that a reconciler that dies in between leaves nothing that its successor
        cannot find.
        """
        ...

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        """Start it, or find the one that was started for this handle before; the handle, completed.

        What is left of the session's earlier launches is ended first. Raises OSError when it cannot be started.
        """
        ...

    def inspect(self, handle: Handle) -> Sight:
        """Whether it runs."""
        ...

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        """Ask it to end, end it after ``grace_s``, and everything it started with it. Safe on one that is gone."""
        ...

    def logs(self, handle: Handle, *, lines: int) -> list[str]:
        """The last lines it wrote."""
        ...


def launch_plan(*, session_id: str, folder: Path) -> Handle:
    """A handle with a name that no other launch has: the session and 32 random bits."""
    return {"launch": f"{session_id}-{secrets.token_hex(4)}", "folder": str(folder)}


def launch_session(launch: str) -> str:
    """The session that a launch belongs to."""
    return launch.rpartition("-")[0]
