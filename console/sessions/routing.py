"""The way from a session's id to its gateway, for the relay: it has a verified episode key and no user."""

from console.sessions.models import Session
from console.sessions.selectors import Route, session_route
from console.sessions.services import session_wake
from tinkerscript.wire.sessions import SessionState


def route_get(*, session_id: str) -> Route:
    """Where the session's gateway is now; a suspended session wakes for being asked. Raises NotFound."""
    route = session_route(session_id=session_id)
    if route.state is SessionState.SUSPENDED:
        session_wake(session=Session.objects.get(id=session_id))
        route = session_route(session_id=session_id)
    return route
