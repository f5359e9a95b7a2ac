"""Finding Tinker sessions and checkpoints by what is known of them, page by page, newest first."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet
from django.db.models.fields.json import KeyTransform

from console.tinker.checkpoints import checkpoints_of
from console.tinker.models import TinkerCheckpoint, TinkerSession
from console.users.models import Project

SEGMENTS = {"training": "weights", "sampler": "sampler_weights", "external": "external_weights"}
T = TypeVar("T", bound=Model)
Cursor = tuple[datetime, str]  # the last row of the page before: when it was made, and its id


def sessions_search(
    *,
    project: Project,
    session_id: str | None,
    display_name: str | None,
    user_metadata: Mapping[str, str],
    owner_ids: Sequence[str] | None,
    statuses: Sequence[Mapping[str, Any]] | None,
    cursor: Cursor | None,
    limit: int,
) -> list[TinkerSession]:
    """The project's sessions that match all that is given, but for id and name: one of those is
    enough.
    """
    rows = TinkerSession.objects.filter(project=project).select_related("key__user")
    named = Q(id=session_id) if session_id is not None else Q()
    if display_name is not None:
        of_name = Q()
        for word in display_name.split():
            of_name &= Q(display_name__icontains=word)
        named |= of_name
    rows = rows.filter(named)
    rows = _with_metadata(rows, user_metadata)
    if owner_ids is not None:
        rows = rows.filter(key__user_id__in=owner_ids)
    if statuses is not None:
        of_status = Q(pk__in=[])
        for status in statuses:
            of_status |= _status(status)
        rows = rows.filter(of_status)
    if cursor is not None:
        rows = rows.filter(Q(created_at__lt=cursor[0]) | Q(created_at=cursor[0], id__lt=cursor[1]))
    return list(rows.order_by("-created_at", "-id")[:limit])


def checkpoints_search(
    *,
    project: Project,
    user_metadata: Mapping[str, str],
    kind: str | None,
    owner_ids: Sequence[str] | None,
    base_models: Sequence[str] | None,
    cursor: Cursor | None,
    limit: int,
) -> list[TinkerCheckpoint]:
    """The project's checkpoints that match all that is given. ``kind`` is one of SEGMENTS."""
    rows = checkpoints_of(project=project)
    rows = _with_metadata(rows, user_metadata)
    if kind is not None:
        rows = rows.filter(segment=SEGMENTS[kind])
    if owner_ids is not None:
        rows = rows.filter(model__tinker_session__key__user_id__in=owner_ids)
    if base_models is not None:
        rows = rows.filter(model__base_model__in=base_models)
    if cursor is not None:
        rows = rows.filter(
            Q(created_at__lt=cursor[0]) | Q(created_at=cursor[0], checkpoint_id__lt=cursor[1])
        )
    return list(rows.order_by("-created_at", "-checkpoint_id")[:limit])


def _with_metadata(rows: QuerySet[T], wanted: Mapping[str, str]) -> QuerySet[T]:
    for number, (name, value) in enumerate(wanted.items()):
        entry = f"entry_{number}"
        rows = rows.alias(**{entry: KeyTransform(name, "user_metadata")}).filter(**{entry: value})
    return rows


def status_of(row: TinkerSession) -> dict[str, Any]:
    """How a session stands, in the wire's words: one whose client vanished was cancelled."""
    if row.finished is None:
        return {"type": "active"}
    reason, detail = row.finished["type"], row.finished["detail"] or None
    if reason == "vanished":
        return {"type": "cancelled", "detail": detail}
    return {"type": "client_finished", "reason": {"type": reason}, "detail": detail}


def _status(wanted: Mapping[str, Any]) -> Q:
    """``wanted`` is of the wire's form. None has failed: what fails is a request, and its future
    says so.
    """
    match wanted["type"]:
        case "active":
            return Q(finished__isnull=True)
        case "cancelled":
            return Q(finished__type="vanished")
        case "client_finished":
            return Q(
                finished__type__in=wanted.get("reasons") or ["success", "errored", "interrupted"]
            )
    return Q(pk__in=[])
