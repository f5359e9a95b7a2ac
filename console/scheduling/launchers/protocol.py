"""What the reconciler asks of whatever starts runtimes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Handle = dict[str, Any]  # JSON: it is kept in the session's row and read by the next reconciler


@dataclass(frozen=True)
class Sight:
    """What became of a runtime. ``code`` is its exit code where the launcher could learn it (negative: a signal)."""

    state: Literal["running", "exited", "gone"]
    code: int | None = None


class Launcher(Protocol):
    """Starts, sees and ends runtimes. Every call returns within its grace plus a few seconds."""

    name: str

    def plan(self, *, session_id: str, folder: Path) -> Handle:
        """The handle of a runtime that is not started yet.

        It is stored before ``start``, so that a reconciler that dies in between leaves nothing that its successor
        cannot find.
        """
        ...

    def start(self, handle: Handle, *, environment: Mapping[str, str]) -> Handle:
        """Start it; the handle, completed. Raises OSError."""
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
