"""Wakes the tasks that wait for a change of state on one event loop."""

import asyncio
import contextlib


class ChangeNotifier:
    """Wakes every waiter at each ``notify``. Wait in a loop that checks its own condition.

    Where the check itself awaits, read ``count`` before it and pass it to ``wait``: a change in
    between is not missed. (An ``asyncio.Condition`` would need its lock held around every check,
    here and in each caller.)
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.count = 0  # of changes so far

    def notify(self) -> None:
        """Something changed: wake everything that waits."""
        self.count += 1
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout_s: float, after: int | None = None) -> None:
        """Return at the first change after number ``after`` (default: after now), or when
        ``timeout_s`` has passed.
        """
        if after is not None and after != self.count:
            return
        event = self._event
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
