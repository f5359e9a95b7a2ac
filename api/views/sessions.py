"""Training sessions, their base models and their record."""

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Query

from api.presenters import session_view
from console.live.hub import event_page
from console.sessions import selectors, services
from console.sessions.catalogue import base_model_list as base_models
from tinkerscript.wire.events import EventKind, EventPage
from tinkerscript.wire.sessions import BaseModelList, SessionCreate, SessionList, SessionView

CURSOR_MAX = 2**53 - 1  # the largest whole number that every JSON reader keeps exact


def base_model_list(request: HttpRequest) -> BaseModelList:
    """The models that a session can start from."""
    return BaseModelList(items=base_models())


def session_list(request: HttpRequest, cursor: str | None = None, limit: int = Query(50, ge=1, le=200)) -> SessionList:
    """The project's sessions, newest first."""
    sessions, next_cursor = selectors.session_list(project=request.auth.project, cursor=cursor, limit=limit)
    return SessionList(items=[session_view(session) for session in sessions], next_cursor=next_cursor)


def session_create(request: HttpRequest, body: SessionCreate) -> SessionView:
    """Start a training session."""
    return session_view(services.session_create(project=request.auth.project, body=body, key=request.auth.key))


def session_get(request: HttpRequest, session_id: str) -> SessionView:
    """One session."""
    return session_view(selectors.session_get(project=request.auth.project, session_id=session_id))


def session_stop(request: HttpRequest, session_id: str) -> SessionView:
    """Ask for the end of a session; asking again changes nothing."""
    return session_view(services.session_stop(project=request.auth.project, session_id=session_id))


async def event_list(
    request: HttpRequest,
    session_id: str,
    after: int = Query(0, ge=0, le=CURSOR_MAX, description="The cursor of the last entry seen."),
    limit: int = Query(200, ge=1, le=1000),
    kind: EventKind | None = None,
    wait_s: float = Query(0, ge=0, le=20, description="How long to wait for an entry when there is none yet."),
) -> EventPage:
    """The session's record after a cursor; waits for the next entry if asked to."""
    await sync_to_async(selectors.session_get)(project=request.auth.project, session_id=session_id)
    return await event_page(session_id=session_id, after=after, limit=limit, kind=kind, wait_s=wait_s)
