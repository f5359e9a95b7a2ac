"""Waits of a client that last: each can be given up, and after some seconds the log has the
reason; as it has that a server is away while requests are tried again, and is back.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tinkerscript.errors import ServerUnreachable, TinkerScriptError

from . import forks

NOTICE_AFTER_S = 5.0
POLL_INTERVAL_S = 5.0
log = logging.getLogger("tinkerscript")


@dataclass(eq=False)
class Wait:
    """One request that may wait. ``reason`` is what the server said last; ``given_up`` ends it at
    its next try.
    """

    since: float = field(default_factory=time.monotonic)
    reason: str = ""
    given_up: threading.Event = field(default_factory=threading.Event)


class WaitingNotice:
    """Logs why begins of a session wait: once, and again when the reason changes.

    ``ask()`` returns the session's state and reason, and may raise TinkerScriptError. The thread
    exists once something has waited, and never keeps the process alive.
    """

    def __init__(self, what: str, ask: Callable[[], str]) -> None:
        self._what, self._ask = what, ask
        self._said = ""
        self.after_fork()
        forks.watch(self)

    def after_fork(self) -> None:
        """Nothing of this process waits yet."""
        self._waits: set[Wait] = set()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[Wait]:
        """Watch over ``wait`` for as long as the block runs."""
        with self._lock:
            self._waits.add(wait)
            is_first = len(self._waits) == 1
            if self._thread is None:
                thread = threading.Thread(
                    target=_run,
                    args=(weakref.ref(self), self._changed),
                    name="tinkerscript-waits",
                    daemon=True,
                )
                self._thread = thread
                thread.start()
        if is_first:
            self._changed.set()
        try:
            yield wait
        finally:
            with self._lock:
                self._waits.discard(wait)

    def look(self) -> float | None:
        """Log the reason if it is new; returns seconds until the next look, None while nothing
        waits.
        """
        with self._lock:
            waits = list(self._waits)
        if not waits:
            self._said = ""
            return None
        long = [wait for wait in waits if wait.since + NOTICE_AFTER_S <= time.monotonic()]
        if not long:
            return max(0.01, min(wait.since for wait in waits) + NOTICE_AFTER_S - time.monotonic())
        reason = self._reason(long)
        if reason and reason != self._said:
            many = f"{len(long)} calls wait" if len(long) > 1 else "A call waits"
            log.warning("%s for %s: %s.", many, self._what, reason)
            self._said = reason
        return POLL_INTERVAL_S

    def _reason(self, waits: list[Wait]) -> str:
        try:
            stands = self._ask()
        except ServerUnreachable:
            return ""  # Outages tells of it
        except TinkerScriptError as failure:
            stands = failure.message.rstrip(".")
        said = next((wait.reason for wait in waits if wait.reason), "").rstrip(".")
        return f"{stands}; {said}" if said and said not in stands else stands


class Outages:
    """Of one connection. One line for each outage, however many threads meet it."""

    def __init__(self) -> None:
        self._since: float | None = None  # time.monotonic(), of an outage that was told

    def failed(self, error: TinkerScriptError, *, since: float, deadline: float) -> None:
        """A try failed and another follows: tries since ``since``, until ``deadline`` (both of
        time.monotonic()).
        """
        now = time.monotonic()
        if self._since is not None or now - since < NOTICE_AFTER_S:
            return
        self._since = since
        log.warning("%s Trying again for another %.0f s.", error, max(0.0, deadline - now))

    def passed(self) -> None:
        """A request got through."""
        if self._since is not None:
            log.warning("The server responds again, after %.0f s.", time.monotonic() - self._since)
            self._since = None


def _run(notice: "weakref.ref[WaitingNotice]", changed: threading.Event) -> None:
    """Holds the session no longer than its users do."""
    pause_s: float | None = None
    while True:
        changed.wait(60.0 if pause_s is None else pause_s)
        changed.clear()
        alive = notice()
        if alive is None:
            return
        pause_s = alive.look()
        del alive
