"""The address of each session's gateway, and the state of the session."""

from channels.db import database_sync_to_async

from api.relay.cache import TtlCache
from api.relay.errors import RelayError, error_for_state
from console.errors import InvalidRequest, NotFound
from console.sessions.routing import route_get
from console.sessions.selectors import Route


async def _look_up(session_id: str) -> Route:
    try:
        return await database_sync_to_async(route_get)(session_id=session_id)
    except NotFound:
        raise RelayError(410, "session_ended", "The session is gone. Start a new one.") from None
    except InvalidRequest as refusal:  # it is suspended and could not go on
        raise RelayError(409, "conflict", refusal.message) from None


routes: TtlCache[Route] = TtlCache(_look_up)


async def route_served(session_id: str) -> Route:
    """The route of a session that serves calls, or may yet. Raises RelayError."""
    route = await routes.get(session_id)
    if error := error_for_state(route):
        raise error
    return route
