"""The way from a session's id to its gateway, for the relay: it has a verified episode key and no
user.
"""

from console.errors import NotFound
from console.sessions.models import Session
from console.sessions.selectors import Route, route_of
from console.sessions.services import session_wake
from tinkerscript.wire.sessions import SessionState


def route_get(*, session_id: str) -> Route:
    """Where the session's gateway is now; a suspended session wakes for being asked. Raises
    NotFound.
    """
    session = Session.objects.filter(id=session_id).first()
    if session is None:
        raise NotFound("There is no such session.")
    return route_of(
        session_wake(session=session) if session.state == SessionState.SUSPENDED else session
    )
