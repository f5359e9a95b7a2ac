"""Waiting for a condition instead of for a time, and a clock that tests turn."""

import asyncio
import faulthandler
import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

# A machine may stand still for seconds; and it is less than the 30 s for which most requests of the
# product are tried.
DEADLINE_S = 25.0
NEVER = "the condition did not come true in time"


class FakeClock:
    """In place of ``time.monotonic`` or ``time.time``: stands at ``now`` until it is advanced."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass
class Watched:
    """How many calls of a coroutine function have begun, and how many of them are over."""

    begun: int = 0
    over: int = 0


def calls_watch(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Watched:
    """Count the calls of ``owner``'s public method ``name``, which does what it did."""
    watched, method = Watched(), getattr(owner, name)

    async def counted(*arguments: Any, **named: Any) -> Any:
        watched.begun += 1
        try:
            return await method(*arguments, **named)
        finally:
            watched.over += 1

    monkeypatch.setattr(owner, name, counted)
    return watched


async def eventually(condition: Callable[[], Any], timeout_s: float = DEADLINE_S) -> None:
    """Wait until ``condition`` holds, leaving the loop free. Raises AssertionError after
    ``timeout_s``, with the longest time in which this process did not look.
    """
    looks = _Looks(timeout_s)
    while not condition():
        looks.count()
        await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], Any], timeout_s: float = DEADLINE_S) -> None:
    """The same in a thread of its own, without a loop."""
    looks = _Looks(timeout_s)
    while not condition():
        looks.count()
        time.sleep(0.005)


class _Looks:
    def __init__(self, timeout_s: float) -> None:
        self._last_at, self._longest_s = time.monotonic(), 0.0
        self._deadline = self._last_at + timeout_s

    def count(self) -> None:
        now = time.monotonic()
        self._longest_s, self._last_at = max(self._longest_s, now - self._last_at), now
        if now >= self._deadline:
            _stacks_print()
            raise AssertionError(f"{NEVER}; the longest pause was {self._longest_s:.1f} s")


def _stacks_print() -> None:
    """Where every thread and every task of any loop stands, into what pytest shows of stderr."""
    with suppress(OSError, ValueError):  # a stream without a descriptor
        faulthandler.dump_traceback(sys.stderr)
    for task in (each for each in gc.get_objects() if isinstance(each, asyncio.Task)):
        if not task.done():
            task.print_stack(file=sys.stderr)
