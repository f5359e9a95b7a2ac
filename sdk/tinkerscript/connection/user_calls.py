"""Calls of a user's own function (a reward, an agent, a judge), each with a deadline: one that
hangs is named and not waited for.

No thread can be ended from outside. In a run of attempts one that is late loses its place to a new
thread, which says what has failed; what the late one still does counts nothing.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tinkerscript.errors import WaitTimeout

T = TypeVar("T")
END = object()


def each_within(
    function: Callable[[T], Any], items: Iterable[T], *, timeout_s: float, name: str
) -> Iterator[tuple[T, Any]]:
    """Each item with ``function(item)``, called in order in one thread beside this one.

    Raises what it raises, and WaitTimeout for a call of more than ``timeout_s``. No thread can be
    ended from outside: that one is left, and does not keep the process alive.
    """
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    given: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        while (item := asked.get()) is not END:
            try:
                given.put((function(item), None))
            except BaseException as failure:  # noqa: BLE001 - it is raised in the thread that waits
                given.put((None, failure))

    threading.Thread(target=run, name=f"tinkerscript-{name}", daemon=True).start()
    try:
        for item in items:
            asked.put(item)
            try:
                result, failure = given.get(timeout=timeout_s)
            except queue.Empty:
                raise WaitTimeout(
                    f"{name}({item!r:.80}) has not returned after {timeout_s:g} s.",
                    hint="Nothing was sent. Look at what your function waits for, and give its "
                    "requests a timeout.",
                ) from None
            if failure is not None:
                raise failure
            yield item, result
    finally:
        asked.put(END)


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
