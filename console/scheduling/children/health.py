"""Whether a child process still does its work: looked at from outside, in a thread of its own.

A process that was stopped (SIGSTOP) or whose loop hangs is alive for the kernel and useless to
everybody. Two signs are looked for: the kernel says that it is stopped, and its ``probe`` fails
again and again. Below are the probes of the server's own processes, and a deadline for what has
none of its own: a database whose lock another holds, an engine that hangs.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, close_old_connections

from console.config.full_disk import database_is_full, is_full
from console.scheduling import processes
from console.scheduling.leader import leader_status
from console.server.web_processes import url_responds

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
PROBE_EVERY = 5  # looks: a probe costs the process a request, a look at the kernel's state nothing
STOPPED_S = 5.0  # a process may be stopped for a moment on purpose
# an overloaded server responds late; one without a response for so long is of no use
SILENT_S = 60.0
STARTING_S = 180.0  # until the first success: imports and migrations on a busy machine
PROBE_TIMEOUT_S = 10.0
JOIN_S = 0.1
STOPPED = "T"  # of /proc/PID/stat; a debugger's stop is "t"


@dataclass(frozen=True)
class Limits:
    """How long each sign must last, in seconds."""

    stopped_s: float = STOPPED_S
    silent_s: float = SILENT_S
    starting_s: float = STARTING_S
    look_every_s: float = LOOK_EVERY_S
    probe_every: int = PROBE_EVERY


class ChildHealth:
    """Looks at one process until ``close``. ``probe`` returns whether it works, within a deadline
    of its own.

    ``problem`` says why it should be replaced; None while it should not.
    """

    def __init__(
        self, pid: int, probe: Callable[[], bool] | None, limits: Limits = Limits()
    ) -> None:
        self.problem: str | None = None
        self._pid, self._probe, self._limits = pid, probe, limits
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"health-{pid}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._over.set()

    def _run(self) -> None:
        began = healthy_at = going_at = time.monotonic()
        has_worked, looks = False, 0
        while not self._over.wait(self._limits.look_every_s):
            if not self._is_stopped():
                going_at = time.monotonic()
            elif time.monotonic() - going_at > self._limits.stopped_s:
                self.problem = f"was stopped for {self._limits.stopped_s:g} s"
                return
            looks += 1
            if self._probe is None or looks % self._limits.probe_every:
                continue
            if self._works(self._probe):
                healthy_at, has_worked = time.monotonic(), True
                continue
            silent_s = time.monotonic() - (healthy_at if has_worked else began)
            if silent_s > (self._limits.silent_s if has_worked else self._limits.starting_s):
                self.problem = f"did not respond for {silent_s:.0f} s"
                return

    def _is_stopped(self) -> bool:
        stat = processes.stat_read(self._pid)
        return stat is not None and stat.state == STOPPED

    def _works(self, probe: Callable[[], bool]) -> bool:
        try:
            return probe()
        except Exception:  # the top of a loop: a probe that cannot look has seen nothing that works
            log.exception("the health of process %d could not be looked at", self._pid)
            return False


def server_responds(*, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
    """Whether what listens on the server's port does."""
    return url_responds(f"{settings.INTERNAL_URL}/healthz", timeout_s=timeout_s)


def reconciler_leads() -> bool:
    """Whether some reconciler renews its lease; another server's, which shares the database, is as
    good. On a full disk none can, and a new one could no more.
    """
    try:
        close_old_connections()
        return leader_status() is not None or is_full() or database_is_full()
    except DatabaseError:
        return True  # a database that is away is not the reconciler's fault


def ended_within(
    timeout_s: float, work: Callable[[], None], *, stopped: Callable[[], bool] = lambda: False
) -> bool:
    """Run ``work`` in a thread, and wait for it so long, or until ``stopped()``; whether it ended.

    What has not ended goes on, and is broken off where this process ends.
    """
    thread = threading.Thread(target=work, name="within-a-deadline", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout_s
    while thread.is_alive() and time.monotonic() < deadline and not stopped():
        thread.join(JOIN_S)
    return not thread.is_alive()
