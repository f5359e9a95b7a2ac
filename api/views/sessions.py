"""Training sessions, their base models and their record."""

import dataclasses

from asgiref.sync import sync_to_async

from api.presenters import session_list_view, session_view
from api.rest.authentication import Caller
from api.views.queries import (
    EventQuery,
    LogQuery,
    MetricQuery,
    ResourceQuery,
    ResumeQuery,
    SessionQuery,
)
from console.catalogue.base_models import base_model_list as base_models
from console.live import resources
from console.live import selectors as live
from console.live.hub import event_page
from console.scheduling import logs
from console.sessions import selectors, services
from console.sessions.dry_run import dry_run
from console.sessions.limits.places import place_list as places
from console.sessions.models import Session
from console.tinker.starting_points import starting_point
from tinkerscript.wire.events import Evaluation, Event, EventKind, EventPage
from tinkerscript.wire.reading.facets import bound_of
from tinkerscript.wire.reading.points import MetricColumns
from tinkerscript.wire.reading.resources import ResourceColumns
from tinkerscript.wire.server import PlaceList
from tinkerscript.wire.sessions import (
    BaseModelList,
    SessionCreate,
    SessionList,
    SessionLogs,
    SessionPlan,
    SessionUpdate,
    SessionView,
)


def place_list(caller: Caller) -> PlaceList:
    """Where sessions of this server can run, with what of the project's runs and waits at each
    place.

    A signed-in operator (Django staff) is told of all projects.
    """
    return PlaceList(items=places(project=None if caller.is_operator else caller.project))


def base_model_list(caller: Caller) -> BaseModelList:
    """The models that a session can start from."""
    return BaseModelList(items=base_models())


def session_list(caller: Caller, query: SessionQuery) -> SessionList:
    """The project's sessions, newest first if not sorted otherwise."""
    sessions, more = selectors.session_list(
        project=caller.project,
        cursor=query.cursor,
        limit=query.limit,
        states=query.state,
        base_model=query.base_model,
        name=query.name,
        tags=query.tag,
        options=query.config,
        pinned=query.pinned,
        kinds=query.kind,
        since=query.since,
        until=query.until,
        sort=query.sort,
        reverse=query.reverse,
        sort_by=query.sort_by,
        bounds=[bound_of(text) for text in query.measure],
    )
    measures = (
        live.last_measures(session_ids=[session.id for session in sessions])
        if query.measures
        else None
    )
    return session_list_view(sessions, more, measures)


def session_create(caller: Caller, body: SessionCreate) -> SessionView:
    """Start a training session."""
    start = starting_point(project=caller.project, name=body.base_model)
    created = services.session_create(
        project=caller.project, body=body, key=caller.key, person=caller.user, start=start
    )
    return session_view(created)


def session_dry_run(caller: Caller, body: SessionCreate) -> SessionPlan:
    """What starting this session would mean; nothing is started."""
    start = starting_point(project=caller.project, name=body.base_model)
    return dry_run(
        project=caller.project, body=body, key=caller.key, person=caller.user, start=start
    )


def session_get(caller: Caller, session_id: str) -> SessionView:
    """One session."""
    return session_view(selectors.session_get(project=caller.project, session_id=session_id))


def session_update(caller: Caller, session_id: str, body: SessionUpdate) -> SessionView:
    """Name, tags, notes and pin of a session, in every state."""
    return session_view(
        services.session_update(project=caller.project, session_id=session_id, body=body)
    )


def session_stop(caller: Caller, session_id: str) -> SessionView:
    """Ask for the end of a session; asking again changes nothing."""
    return session_view(services.session_stop(project=caller.project, session_id=session_id))


def session_suspend(caller: Caller, session_id: str) -> SessionView:
    """Save a ready session's state and free its runtime; a request or resume brings it back."""
    return session_view(services.session_suspend(project=caller.project, session_id=session_id))


def session_resume(caller: Caller, session_id: str, query: ResumeQuery) -> SessionView:
    """Bring a suspended session back, where ``trainer_ranks`` is given under that number of trainer
    processes.
    """
    project, ranks = caller.project, query.trainer_ranks
    return session_view(
        services.session_resume(project=project, session_id=session_id, trainer_ranks=ranks)
    )


def session_delete(caller: Caller, session_id: str) -> None:
    """Remove a session that has ended, with its record, episodes and checkpoints."""
    services.session_delete(project=caller.project, session_id=session_id)


def session_logs(caller: Caller, session_id: str, query: LogQuery) -> SessionLogs:
    """The last lines that the session's runtime wrote, or its last one after the end; or those
    after a cursor.
    """
    project = caller.project
    page = logs.session_logs(
        project=project,
        session_id=session_id,
        lines=query.lines,
        containing=query.q,
        after=query.after,
    )
    return SessionLogs(**dataclasses.asdict(page))


async def event_list(caller: Caller, session_id: str, query: EventQuery) -> EventPage:
    """The session's record after a cursor; waits for the next entry if asked to."""
    await sync_to_async(selectors.session_get)(project=caller.project, session_id=session_id)
    if query.spread:
        marks = sync_to_async(live.marks_spread)
        return await marks(session_id=session_id, after=query.after, limit=query.limit)
    return await event_page(
        session_id=session_id,
        after=query.after,
        limit=query.limit,
        kinds=query.kind,
        newest=query.newest,
        marks=query.marks,
        wait_s=query.wait_s,
    )


def evaluation_create(caller: Caller, session_id: str, body: Evaluation) -> Event:
    """Add what an evaluation measured to the session's record; the console draws it."""
    row = services.evaluation_record(project=caller.project, session_id=session_id, body=body)
    return Event(cursor=row.id, kind=EventKind(row.kind), at=row.at, data=row.data)


def metric_columns(caller: Caller, session_id: str, query: MetricQuery) -> MetricColumns:
    """The session's steps as columns, put together to as many points as are asked for, with their
    extremes.
    """
    return columns_of(selectors.session_get(project=caller.project, session_id=session_id), query)


def columns_of(session: Session, query: MetricQuery) -> MetricColumns:
    """The columns that ``query`` asks for of a session that the caller may read."""
    return live.metric_columns(
        session_id=session.id,
        created_at=session.created_at,
        names=[name for name in query.names.split(",") if name],
        axis=query.x,
        after=query.after,
        x_from=query.x_from,
        x_to=query.x_to,
        points=query.points,
        extremes=query.extremes,
    )


def resource_columns(caller: Caller, session_id: str, query: ResourceQuery) -> ResourceColumns:
    """What the session's runtimes used of their machines, sampled every ten seconds, as columns."""
    session = selectors.session_get(project=caller.project, session_id=session_id)
    return resources.resource_columns(
        session_id=session.id, created_at=session.created_at.timestamp(), points=query.points
    )
