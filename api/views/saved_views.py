"""Saved views: how the charts of a run are looked at, for everybody in the project."""

from api.rest.requests import ApiRequest
from console.sessions.saved_views import services
from console.sessions.saved_views.models import SavedView
from tinkerscript.wire.reading.saved_views import SavedViewCreate, SavedViewList, SavedViewUpdate, SavedViewView


def saved_view_list(request: ApiRequest) -> SavedViewList:
    """The project's saved views: pinned ones first, then by name."""
    return SavedViewList(items=[_shown(view) for view in services.saved_view_list(project=request.auth.project)])


def saved_view_create(request: ApiRequest, body: SavedViewCreate) -> SavedViewView:
    """Keep how the charts of a run are looked at, by a name that no other view of the project has."""
    return _shown(services.saved_view_create(project=request.auth.project, body=body))


def saved_view_update(request: ApiRequest, view_id: str, body: SavedViewUpdate) -> SavedViewView:
    """Change what is given."""
    fields = body.model_dump(exclude_unset=True)
    return _shown(services.saved_view_update(project=request.auth.project, view_id=view_id, fields=fields))


def saved_view_delete(request: ApiRequest, view_id: str) -> None:
    """Remove a view."""
    services.saved_view_delete(project=request.auth.project, view_id=view_id)


def _shown(view: SavedView) -> SavedViewView:
    return SavedViewView.model_validate(view, from_attributes=True)
