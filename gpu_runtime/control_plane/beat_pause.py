"""How long a runtime waits between two heartbeats: as the control plane says, and less where it has
something to tell.

A server with very many runtimes asks for fewer heartbeats. None of what is told by them may be told
later for that: what begins meanwhile is told a second after the last one, a stage, or that the
machine is taken away, at once.
"""

import asyncio
from contextlib import suppress

from tinkerscript.wire.runtime import Orders


class BeatPause:
    """Of one event loop, which ``end`` is called on too. ``least_s``: a second; the pace until
    another is told.
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = self.pace_s = least_s
        self._soon, self._now = asyncio.Event(), asyncio.Event()

    def told(self, orders: Orders) -> None:
        """The pace from now on. A third of the lease is the most, whatever the server asks for."""
        self.pace_s = max(self._least_s, min(orders.heartbeat_s, orders.lease_seconds / 3))

    def end(self, *, at_once: bool) -> None:
        """There is something to tell: at once, or when the second is over."""
        self._soon.set()
        if at_once:
            self._now.set()

    async def wait(self, began_at: float) -> None:
        """Until the next heartbeat after the one that ``began_at`` (time of the loop)."""
        for event, wait_s in ((self._now, self._least_s), (self._soon, self.pace_s)):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(began_at + wait_s):
                    await event.wait()
            if self._now.is_set():
                break
        self._soon.clear()
        self._now.clear()
