"""What the database said less than a second ago, so that a call of the relay does not wait for it.

What is in use is looked up again before its time is over: calls of a busy session never wait.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

FRESH_S = 0.9  # from before the look-up: what changes holds within a second, on every server process by itself
KNOWN_MAX = 10_000

T = TypeVar("T")


class Memory(Generic[T]):
    """The answers of ``look_up`` in this process. Many calls that miss at once make one look-up."""

    def __init__(self, look_up: Callable[[str], Coroutine[Any, Any, T]]) -> None:
        self._look_up = look_up
        self._known: dict[str, tuple[T, float]] = {}
        self._asking: dict[str, asyncio.Task[T]] = {}

    async def get(self, key: str) -> T:
        """The answer as it was FRESH_S ago at most. Raises what the look-up raises; such an answer is not kept."""
        known = self._known.get(key)
        age_s = time.monotonic() - known[1] if known else FRESH_S
        if known is None or age_s >= FRESH_S:
            # One caller going away must not take the answer from the others.
            return await asyncio.shield(self._ask(key))
        if age_s >= FRESH_S / 2:
            self._ask(key)
        return known[0]

    def drop(self, key: str) -> None:
        """Forget an answer that was of no use."""
        self._known.pop(key, None)

    def _ask(self, key: str) -> asyncio.Task[T]:
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._remember(key))
            asking.add_done_callback(_heard)
        return asking

    async def _remember(self, key: str) -> T:
        asked_at = time.monotonic()
        try:
            answer = await self._look_up(key)
        except BaseException:
            self.drop(key)
            raise
        finally:
            del self._asking[key]
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[key] = answer, asked_at
        return answer


def _heard(asking: asyncio.Task[Any]) -> None:
    """Nobody may have waited for a look-up; the next call that needs one meets its error anew."""
    if not asking.cancelled():
        asking.exception()
