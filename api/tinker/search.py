"""What Tinker clients find by search, and the two calls that name a session's project and its
copies.
"""

from typing import Any, TypeVar

from django.db.models import Count, Sum

from api.rest.authentication import KeyCaller
from api.tinker.answers import Json
from api.tinker.callers import project_check
from api.tinker.records import checkpoint_view
from api.tinker.requests import CheckpointSearch, ProjectNamed, SamplerJoin, Search, SessionSearch
from console.tinker import search, services
from console.tinker.checkpoints import checkpoints_of
from console.tinker.models import TinkerCheckpoint, TinkerSession
from console.tinker.tokens import user_urn
from console.users.models import Project

T = TypeVar("T", TinkerSession, TinkerCheckpoint)


def sessions_search(caller: KeyCaller, body: SessionSearch) -> Json:
    """``POST /sessions/search``."""
    for project_id in body.project_ids or []:
        project_check(caller, project_id)
    rows = search.sessions_search(
        project=caller.project,
        session_id=body.session_id,
        display_name=body.display_name,
        user_metadata=body.user_metadata,
        owner_ids=_owner_ids(caller, body),
        statuses=None
        if body.statuses is None
        else [status.model_dump() for status in body.statuses],
        cursor=(body.cursor.last_created_at, body.cursor.last_session_id) if body.cursor else None,
        limit=body.limit + 1,
    )
    page, following = _page(rows, body, "last_session_id", "id")
    stored = _stored(caller.project, page)
    told = [_summary(row, *stored.get(row.id, (0, 0))) for row in page]
    return {"sessions": told, "next_cursor": following}


def checkpoints_search(caller: KeyCaller, body: CheckpointSearch) -> Json:
    """``POST /search_checkpoints``."""
    for project_id in body.project_ids or []:
        project_check(caller, project_id)
    rows = search.checkpoints_search(
        project=caller.project,
        user_metadata=body.user_metadata,
        kind=body.checkpoint_type,
        owner_ids=_owner_ids(caller, body),
        base_models=body.base_models,
        cursor=(body.cursor.last_created_at, body.cursor.last_checkpoint_uuid)
        if body.cursor
        else None,
        limit=body.limit + 1,
    )
    page, following = _page(rows, body, "last_checkpoint_uuid", "checkpoint_id")
    return {"checkpoints": [checkpoint_view(row) for row in page], "next_cursor": following}


def session_project_set(caller: KeyCaller, body: ProjectNamed, *, session_id: str) -> None:
    """``PUT /sessions/{id}/project``: the one that it is in, as a key acts in one alone."""
    services.tinker_session_get(project=caller.project, tinker_session_id=session_id)
    project_check(caller, body.project_id)


def sampling_session_join(caller: KeyCaller, body: SamplerJoin) -> Json:
    """``POST /join_sampling_session``."""
    number = services.sampling_client_join(key=caller.key, sampler_id=body.sampling_session_id)
    return {"type": "join_sampling_session", "client_counter": number}


def _page(rows: list[T], body: Search, name: str, of: str) -> tuple[list[T], Json | None]:
    """The rows of a page, of which one more was asked for, and where the next one begins: ``name``
    is what the wire calls the last row's ``of``.
    """
    page = rows[: body.limit]
    if len(rows) == len(page):
        return page, None
    last = page[-1]
    return page, {"last_created_at": last.created_at.isoformat(), name: getattr(last, of)}


def _owner_ids(caller: KeyCaller, body: Search) -> list[str] | None:
    """The people whose rows are wanted; None for everyone of the project."""
    if body.owner.type == "accessible":
        return None
    if body.owner.type == "own":
        return [str(caller.key.user.pk)]
    prefix = user_urn(caller.key.user).rpartition(":")[0] + ":"
    found = [
        urn.removeprefix(prefix) for urn in body.owner.owner_urns or [] if urn.startswith(prefix)
    ]
    return [pk for pk in found if pk.isascii() and pk.isdecimal() and len(pk) < 19]


def _stored(project: Project, page: list[TinkerSession]) -> dict[str, tuple[int, int]]:
    """How many checkpoints each of these sessions has, and their bytes, in one query."""
    of = "model__tinker_session"
    rows = checkpoints_of(project=project).filter(**{f"{of}__in": page}).order_by().values_list(of)
    counted = rows.annotate(Count("id"), Sum("checkpoint__size_bytes"))
    return {session_id: (number, size or 0) for session_id, number, size in counted}


def _summary(row: TinkerSession, checkpoints: int, size_bytes: int) -> dict[str, Any]:
    return {
        "session_id": row.id,
        "created_at": row.created_at.isoformat(),
        "owner": user_urn(row.key.user) if row.key else "",
        "project_id": row.project_id,
        "status": search.status_of(row),
        "checkpoints_count": checkpoints,
        "display_name": row.display_name or None,
        "user_metadata": {name: str(value) for name, value in row.user_metadata.items()} or None,
        "checkpoint_storage_bytes": size_bytes,
    }
