"""Training sessions, their base models and their record."""

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Query

from api.presenters import session_list_view, session_view
from console.live.hub import event_page
from console.scheduling import logs
from console.sessions import removal, selectors, services
from console.sessions.catalogue import base_model_list as base_models
from console.sessions.plan import session_plan
from tinkerscript.wire.events import EventKind, EventPage
from tinkerscript.wire.sessions import (
    BaseModelList,
    SessionCreate,
    SessionList,
    SessionLogs,
    SessionPlan,
    SessionState,
    SessionView,
)

CURSOR_MAX = 2**53 - 1  # the largest whole number that every JSON reader keeps exact


def base_model_list(request: HttpRequest) -> BaseModelList:
    """The models that a session can start from."""
    return BaseModelList(items=base_models())


def session_list(
    request: HttpRequest,
    cursor: str | None = None,
    limit: int = Query(50, ge=1, le=200),
    state: list[SessionState] = Query([], description="Only those in one of these states."),
    base_model: str | None = None,
    name: str | None = Query(None, description="Only those with this in their name."),
) -> SessionList:
    """The project's sessions, newest first."""
    wanted = {"states": state, "base_model": base_model, "name": name}
    return session_list_view(
        *selectors.session_list(project=request.auth.project, cursor=cursor, limit=limit, **wanted)
    )


def session_create(request: HttpRequest, body: SessionCreate) -> SessionView:
    """Start a training session."""
    return session_view(services.session_create(project=request.auth.project, body=body, key=request.auth.key))


def session_dry_run(request: HttpRequest, body: SessionCreate) -> SessionPlan:
    """What starting this session would mean; nothing is started."""
    return session_plan(body=body, key=request.auth.key)


def session_get(request: HttpRequest, session_id: str) -> SessionView:
    """One session."""
    return session_view(selectors.session_get(project=request.auth.project, session_id=session_id))


def session_stop(request: HttpRequest, session_id: str) -> SessionView:
    """Ask for the end of a session; asking again changes nothing."""
    return session_view(services.session_stop(project=request.auth.project, session_id=session_id))


def session_suspend(request: HttpRequest, session_id: str) -> SessionView:
    """Save a ready session's state and free its runtime; a request or resume brings it back."""
    return session_view(services.session_suspend(project=request.auth.project, session_id=session_id))


def session_resume(request: HttpRequest, session_id: str) -> SessionView:
    """Bring a suspended session back."""
    return session_view(services.session_resume(project=request.auth.project, session_id=session_id))


def session_delete(request: HttpRequest, session_id: str) -> None:
    """Remove a session that has ended, with its record, episodes and checkpoints."""
    removal.session_delete(project=request.auth.project, session_id=session_id)


def session_logs(request: HttpRequest, session_id: str, lines: int = Query(200, ge=1, le=5000)) -> SessionLogs:
    """The last lines that the session's runtime wrote."""
    return SessionLogs(lines=logs.session_logs(project=request.auth.project, session_id=session_id, lines=lines))


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
