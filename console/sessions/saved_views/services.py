"""Saved views: kept, listed, changed and removed by the people of a project."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from console.errors import Conflict, NotFound
from console.sessions.saved_views.models import SavedView
from console.users.models import Project
from tinkerscript.wire.reading.saved_views import SavedViewCreate

MAX_VIEWS = 100  # of a project: all of them are one list


def saved_view_create(*, project: Project, body: SavedViewCreate) -> SavedView:
    """A new view. Raises Conflict for a name that there is, and for one too many."""
    with transaction.atomic():
        _lock(project)  # requests at the same time see one another
        if SavedView.objects.filter(project=project).count() >= MAX_VIEWS:
            raise Conflict(
                f"The project has {MAX_VIEWS} views.", hint="Remove one that is no longer needed."
            )
        _name_check(project, body.name)
        return SavedView.objects.create(project=project, **body.model_dump())


def saved_view_list(*, project: Project) -> QuerySet[SavedView]:
    """The views of a project: pinned ones first, then by name."""
    return SavedView.objects.filter(project=project).order_by("-pinned", "name")


def saved_view_update(*, project: Project, view_id: str, fields: dict[str, Any]) -> SavedView:
    """The view with these fields changed. Raises NotFound, and Conflict for a name that another one
    has.
    """
    with transaction.atomic():
        _lock(project)
        view = _view_get(project, view_id)
        if fields.get("name", view.name) != view.name:
            _name_check(project, fields["name"])
        for name, value in fields.items():
            setattr(view, name, value)
        view.save()
    return view


def saved_view_delete(*, project: Project, view_id: str) -> None:
    """Remove a view. Raises NotFound."""
    _view_get(project, view_id).delete()


def _view_get(project: Project, view_id: str) -> SavedView:
    view = SavedView.objects.filter(project=project, id=view_id).first()
    if view is None:
        raise NotFound("There is no such view in this project.")
    return view


def _lock(project: Project) -> None:
    Project.objects.select_for_update(no_key=True).get(id=project.id)


def _name_check(project: Project, name: str) -> None:
    if SavedView.objects.filter(project=project, name=name).exists():
        raise Conflict(
            "A view of this name is there already.", hint="Take another name, or change that one."
        )
