"""Whether the API key that an episode was begun with is still good, remembered for half a second.

An episode key outlives the request that made it; the API key behind it may be revoked meanwhile. With half a second
of memory, and the time of one look-up, calls stop within a second, on every server process by itself.
"""

import asyncio
import time

from channels.db import database_sync_to_async

from api.relay_refusals import Refusal
from console.users.keys import key_is_good

FRESH_S = 0.5
KNOWN_MAX = 10_000


class Callers:
    """The API keys of one process' calls. Many calls that miss at once make one look-up."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, float]] = {}
        self._asking: dict[str, asyncio.Task[bool]] = {}

    async def check(self, key_id: str) -> None:
        """Raises Refusal when the key has ended. An episode that a person began has none (empty)."""
        if key_id and not await self._is_good(key_id):
            raise Refusal(
                401,
                "invalid_api_key",
                "The API key that this episode was begun with is revoked or expired. Begin one with another key.",
            )

    async def _is_good(self, key_id: str) -> bool:
        good, known_at = self._known.get(key_id, (False, float("-inf")))
        if time.monotonic() - known_at < FRESH_S:
            return good
        asking = self._asking.get(key_id)
        if asking is None:
            asking = self._asking[key_id] = asyncio.create_task(self._look_up(key_id))
        return await asyncio.shield(asking)  # one caller going away must not take the answer from the others

    async def _look_up(self, key_id: str) -> bool:
        asked_at = time.monotonic()
        try:
            good = await database_sync_to_async(key_is_good)(key_id=key_id)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key_id] = good, asked_at
            return good
        finally:
            del self._asking[key_id]


callers = Callers()
