"""Where each session's gateway is, remembered for a second so that a call does not wait for the database."""

import asyncio
import time

from channels.db import database_sync_to_async

from api.relay_refusals import Refusal
from console.errors import NotFound
from console.sessions.routing import route_get
from console.sessions.selectors import Route

FRESH_S = 1.0


class Routes:
    """The routes of one process. Many calls that miss at once make one look-up."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Route, float]] = {}
        self._asking: dict[str, asyncio.Task[Route]] = {}

    async def get(self, session_id: str) -> Route:
        """The route as of a second ago at most. Raises Refusal when the session is gone."""
        route, known_at = self._known.get(session_id, (None, 0.0))
        if route is not None and time.monotonic() - known_at < FRESH_S:
            return route
        asking = self._asking.get(session_id)
        if asking is None:
            asking = self._asking[session_id] = asyncio.create_task(self._look_up(session_id))
        return await asyncio.shield(asking)  # one caller going away must not take the answer from the others

    def drop(self, session_id: str) -> None:
        """Forget a route that led nowhere."""
        self._known.pop(session_id, None)

    async def _look_up(self, session_id: str) -> Route:
        try:
            route = await database_sync_to_async(route_get)(session_id=session_id)
            self._known[session_id] = route, time.monotonic()
            return route
        except NotFound:
            raise Refusal(410, "session_ended", "The session of this key is gone. Start a new one.") from None
        finally:
            del self._asking[session_id]


routes = Routes()
