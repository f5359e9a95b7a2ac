"""Where each session's gateway is."""

from channels.db import database_sync_to_async

from api.relay_memory import Memory
from api.relay_refusals import Refusal
from console.errors import NotFound
from console.sessions.routing import route_get
from console.sessions.selectors import Route


async def _look_up(session_id: str) -> Route:
    try:
        return await database_sync_to_async(route_get)(session_id=session_id)
    except NotFound:
        raise Refusal(410, "session_ended", "The session of this key is gone. Start a new one.") from None


routes: Memory[Route] = Memory(_look_up)
