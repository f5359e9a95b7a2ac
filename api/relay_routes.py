"""Where each session's gateway is, remembered for a second so that a call does not wait for the database.

A route that is in use is looked up again before its second is over: calls of a busy session never wait for it.
"""

import asyncio
import time

from channels.db import database_sync_to_async

from api.relay_refusals import Refusal
from console.errors import NotFound
from console.sessions.routing import route_get
from console.sessions.selectors import Route

FRESH_S = 1.0
KNOWN_MAX = 4096


class Routes:
    """The routes of one process. Many calls that miss at once make one look-up."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Route, float]] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}

    async def get(self, session_id: str) -> Route:
        """The route as of a second ago at most. Raises Refusal when the session is gone."""
        route, known_at = self._known.get(session_id, (None, 0.0))
        age_s = time.monotonic() - known_at
        if route is None or age_s >= FRESH_S:
            # One caller going away must not take the answer from the others.
            return await asyncio.shield(self._ask(session_id))
        if age_s >= FRESH_S / 2:
            self._ask(session_id)
        return route

    def drop(self, session_id: str) -> None:
        """Forget a route that led nowhere."""
        self._known.pop(session_id, None)

    def _ask(self, session_id: str) -> asyncio.Task[Route]:
        asking = self._asking.get(session_id)
        if asking is None:
            asking = self._asking[session_id] = asyncio.create_task(self._look_up(session_id))
            asking.add_done_callback(_heard)
        return asking

    async def _look_up(self, session_id: str) -> Route:
        asked_at = time.monotonic()
        try:
            route = await database_sync_to_async(route_get)(session_id=session_id)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[session_id] = route, asked_at
            return route
        except NotFound:
            self.drop(session_id)
            raise Refusal(410, "session_ended", "The session of this key is gone. Start a new one.") from None
        finally:
            del self._asking[session_id]


def _heard(asking: asyncio.Task[Route]) -> None:
    """Nobody may have waited for a look-up; the next call that needs one meets its error anew."""
    if not asking.cancelled():
        asking.exception()


routes = Routes()
