"""How long the threads of a run may be in code of the user's: an agent, a judge.

No thread can be ended from outside. One that is late loses its place to a new thread, which says
what has failed; what the late one still does counts nothing.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


class GivenUp(BaseException):
    """Raised in a thread that comes back late, in place of what its code returned or raised."""


@dataclass(eq=False, frozen=True)
class _Limited:
    thread: threading.Thread
    until: float  # time.monotonic()
    say_late: Callable[[], None]


class Deadlines:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._running: set[_Limited] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def limit(self, timeout_s: float, say_late: Callable[[], None]) -> Iterator[None]:
        """The block may take ``timeout_s``; ``say_late`` is carried out elsewhere once it is late.

        Raises GivenUp at the end of a block that was given up.
        """
        limited = _Limited(threading.current_thread(), time.monotonic() + timeout_s, say_late)
        with self._lock:
            self._running.add(limited)
        try:
            yield
        except BaseException as failure:
            if not self._is_over(limited):
                raise GivenUp from failure
            raise
        if not self._is_over(limited):
            raise GivenUp

    def take_overdue(self) -> list[tuple[threading.Thread, Callable[[], None]]]:
        """Give up what is late; the caller carries out each ``say_late`` and replaces its
        thread.
        """
        now = time.monotonic()
        with self._lock:
            late = [limited for limited in self._running if now >= limited.until]
            self._running.difference_update(late)
        return [(limited.thread, limited.say_late) for limited in late]

    def _is_over(self, limited: _Limited) -> bool:
        """False when it was given up meanwhile."""
        with self._lock:
            was_running = limited in self._running
            self._running.discard(limited)
        return was_running
