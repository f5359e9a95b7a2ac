"""What people of a project give each other and anyone else to look at: links to a run, and saved
views of its charts.

A reader's routes name no session: the link says which, and nothing else of the server can be
reached with it.
"""

from django.conf import settings
from django.http import HttpResponse

from api.presenters import episode_list_view, session_view
from api.rest.authentication import Caller
from api.views.queries import MetricQuery, SharedEpisodeQuery, TimelinesQuery
from api.views.sessions import columns_of
from api.views.trajectories import stored_timelines
from console.errors import Forbidden
from console.sessions.episodes import selectors as episodes
from console.sessions.saved_views import services as saved_views
from console.sessions.saved_views.models import SavedView
from console.sessions.sharing import services
from console.sessions.sharing.models import ShareLink
from tinkerscript.wire.account import Scope
from tinkerscript.wire.episodes import EpisodeList
from tinkerscript.wire.reading.points import MetricColumns
from tinkerscript.wire.reading.saved_views import (
    SavedViewCreate,
    SavedViewList,
    SavedViewUpdate,
    SavedViewView,
)
from tinkerscript.wire.reading.sharing import (
    ShareCreate,
    ShareCreated,
    SharedRun,
    ShareList,
    ShareView,
)


def share_create(caller: Caller, session_id: str, body: ShareCreate) -> ShareCreated:
    """Make a link that reads the session without an account."""
    if Scope.SESSIONS_READ not in caller.scopes:
        raise Forbidden(
            f"This needs the scope {Scope.SESSIONS_READ} too: a link reads.",
            hint=f"Use a key that has both: {settings.PUBLIC_URL}/keys",
            details={"needed": Scope.SESSIONS_READ, "scopes": sorted(caller.scopes)},
        )
    link, token = services.share_create(
        project=caller.project,
        session_id=session_id,
        person=caller.user,
        key=caller.key,
        expires_in_days=body.expires_in_days,
    )
    return ShareCreated(**_view(link).model_dump(), url=f"{settings.PUBLIC_URL}/shared#{token}")


def share_list(caller: Caller, session_id: str) -> ShareList:
    """The links that read the session now; their tokens are not kept."""
    links = services.share_list(project=caller.project, session_id=session_id)
    return ShareList(items=[_view(link) for link in links])


def share_revoke(caller: Caller, session_id: str, share_id: str) -> None:
    """End a link, now and for ever."""
    services.share_revoke(project=caller.project, session_id=session_id, share_id=share_id)


def shared_get(link: ShareLink) -> SharedRun:
    """The session of the link."""
    view = session_view(link.session)
    fields = {name: getattr(view, name) for name in SharedRun.model_fields if name != "expires_at"}
    return SharedRun(**fields, expires_at=link.expires_at)


def shared_metrics(link: ShareLink, query: MetricQuery) -> MetricColumns:
    """The steps of the link's session as columns."""
    return columns_of(link.session, query)


def shared_episodes(link: ShareLink, query: SharedEpisodeQuery) -> EpisodeList:
    """The episodes of the link's session that match, without what people said of them."""
    session = link.session
    page, more = episodes.episode_list(
        project=session.project,
        session_id=session.id,
        only=episodes.EpisodeFilter(task=query.task, fates=query.fate, step=query.step),
        sort=query.sort,
        cursor=query.cursor,
        limit=query.limit,
    )
    return episode_list_view(page, {}, more)


def shared_timelines(link: ShareLink, episode_id: str, query: TimelinesQuery) -> HttpResponse:
    """Every token of an episode of the link's session, once it is stored."""
    session = link.session
    record = episodes.episode_get(
        project=session.project, session_id=session.id, episode_id=episode_id
    )
    return stored_timelines(record, query, annotations=())


def _view(link: ShareLink) -> ShareView:
    return ShareView(
        id=link.id,
        by=link.person.email if link.person else "",
        created_at=link.created_at,
        expires_at=link.expires_at,
    )


def saved_view_list(caller: Caller) -> SavedViewList:
    """The project's saved views: pinned ones first, then by name."""
    return SavedViewList(
        items=[_saved_view(view) for view in saved_views.saved_view_list(project=caller.project)]
    )


def saved_view_create(caller: Caller, body: SavedViewCreate) -> SavedViewView:
    """Keep how the charts of a run are looked at, by a name that no other view of the project
    has.
    """
    return _saved_view(saved_views.saved_view_create(project=caller.project, body=body))


def saved_view_update(caller: Caller, view_id: str, body: SavedViewUpdate) -> SavedViewView:
    """Change what is given."""
    fields = body.model_dump(exclude_unset=True)
    return _saved_view(
        saved_views.saved_view_update(project=caller.project, view_id=view_id, fields=fields)
    )


def saved_view_delete(caller: Caller, view_id: str) -> None:
    """Remove a view."""
    saved_views.saved_view_delete(project=caller.project, view_id=view_id)


def _saved_view(view: SavedView) -> SavedViewView:
    return SavedViewView.model_validate(view, from_attributes=True)
