"""A cache of what the database said less than a second ago, so that a call of the relay does not
wait for a query, and a thousand watchers of a session not for a thousand.

An entry in use is looked up again before it expires: calls of a busy session never wait.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

# from before the look-up: a change takes effect within a second, in every server process on its own
FRESH_S = 0.9
MAX_ENTRIES = 10_000

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class TtlCache(Generic[K, T]):
    """The results of ``look_up`` in this process. Many calls that miss at once make one look-up, of
    the key and of what the first of them gave beside it, which is not kept.
    """

    def __init__(
        self,
        look_up: Callable[..., Coroutine[Any, Any, T]],
        *,
        fresh_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up, self._fresh_s, self._clock = look_up, fresh_s, clock
        self._entries: dict[K, tuple[T, float]] = {}  # the value, and when its look-up began
        self._pending: dict[K, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: K, *given: object) -> T:
        """The value as it was at most ``fresh_s`` (FRESH_S) ago. Raises what the look-up raises;
        errors are not cached.
        """
        entry, fresh_s = self._entries.get(key), self._fresh_s or FRESH_S
        age_s = self._clock() - entry[1] if entry else fresh_s
        if entry is None or age_s >= fresh_s:
            # A caller that is cancelled must not cancel the look-up of the others.
            return await asyncio.shield(self._refresh(key, *given))
        if age_s >= fresh_s / 2:
            self._refresh(key, *given)
        return entry[0]

    def drop(self, key: K) -> None:
        """Forget a value that turned out to be of no use."""
        self._entries.pop(key, None)

    def _refresh(self, key: K, *given: object) -> asyncio.Task[T]:
        task = self._pending.get(key)
        if task is None:
            task = self._pending[key] = asyncio.create_task(self._store(key, *given))
            task.add_done_callback(_error_retrieve)
        return task

    async def _store(self, key: K, *given: object) -> T:
        began_at = self._clock()
        try:
            value = await self._look_up(key, *given)
        except BaseException:
            self.drop(key)
            raise
        finally:
            del self._pending[key]
        if len(self._entries) >= MAX_ENTRIES:
            self._entries.clear()
        self._entries[key] = value, began_at
        return value


def _error_retrieve(task: asyncio.Task[Any]) -> None:
    """Read the error of a look-up that no caller waited for, or asyncio logs it; the next call
    meets it anew.
    """
    if not task.cancelled():
        task.exception()
