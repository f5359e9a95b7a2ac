"""Calls of a user's own function, each with a deadline: one that hangs is named and not waited
for.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
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
