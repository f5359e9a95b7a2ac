"""The caller's credential, and what was done and stored in the project: tokens, the audit log,
usage.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Count, Sum

from api.rest.authentication import KeyCaller
from api.rest.parsing import YEARS
from api.tinker.answers import Json
from api.tinker.requests import Body
from console.audit.services import audit_list
from console.errors import InvalidRequest
from console.tinker.checkpoints import checkpoints_of
from console.tinker.models import TinkerSession, TinkerTokens
from console.tinker.tokens import token_make, user_urn
from console.tinker.work import tokens_of
from console.users.keys import key_revoke
from console.users.models import Project

MAX_ENTRIES, AUDIT_PAGE, MAX_AUDIT_PAGES, MAX_DAYS = 1000, 1000, 100, 92
GIGABYTE = 10**9
# The actions of each kind of event: what the audit log's names begin with. There are no teams and
# no organizations.
KINDS: dict[str, tuple[str, ...]] = {
    "all": ("",),
    "checkpoints": ("checkpoint",),
    "projects": ("project", "key", "member", "invitation", "session", "tinker"),
    "teams": (),
    "organizations": (),
}


def auth_token(caller: KeyCaller, body: Body) -> Json:
    """``POST /auth/token``: a token for the key's bearer, good for an hour and no longer than the
    key is.
    """
    return {"jwt": token_make(key=caller.key)}


def key_delete(caller: KeyCaller) -> None:
    """``DELETE /auth/apikey/me``: the key revokes itself."""
    key_revoke(project=caller.project, user=caller.key.user, key_id=caller.key.id)


def audit(caller: KeyCaller, *, query: dict[str, str]) -> Json:
    """``GET /audit``: the newest entries of a day, or of all, oldest first."""
    kind = query.get("event_type", "all")
    if kind not in KINDS:
        raise InvalidRequest(f"event_type is {kind!r}; it is one of {', '.join(KINDS)}.")
    day = _day(query, "day")
    entries: list[dict[str, Any]] = []
    for content in _audit_contents(caller.project.id, day):
        if content["action"].startswith(KINDS[kind]):
            told = {
                name: content[name]
                for name in ("actor", "key_id", "target", "details", "request_id")
            }
            entries.append(
                {"timestamp": content["at"], "event": content["action"], "event_details": told}
            )
        if len(entries) == MAX_ENTRIES:
            break
    return {"entries": entries[::-1]}


def _audit_contents(project_id: str, day: date | None) -> Iterator[dict[str, Any]]:
    """The entries of a day, or the newest ``MAX_AUDIT_PAGES`` pages, newest first, read page by
    page.
    """
    before: int | None = None
    until = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1) if day else None
    for _ in range(MAX_AUDIT_PAGES):
        page, before = audit_list(
            project_id=project_id, before=before, limit=AUDIT_PAGE, until=until
        )
        for record in page:
            content = json.loads(record.content)
            on = datetime.fromisoformat(content["at"]).astimezone(UTC).date()
            if day is not None and on < day:
                return
            if day is None or on == day:
                yield content
        if before is None:
            return


def usage_events(caller: KeyCaller, *, query: dict[str, str]) -> Json:
    """``GET /billing/usage/events``: the tokens and the checkpoints of each hour. Nothing has a
    price.
    """
    last = _day(query, "ending_before") or datetime.now(UTC).date() + timedelta(days=1)
    first = _day(query, "starting_on") or last - timedelta(days=31)
    if not timedelta() < last - first <= timedelta(days=MAX_DAYS):
        raise InvalidRequest(
            f"starting_on must be before ending_before, by at most {MAX_DAYS} days."
        )
    began, ended = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, last))
    sessions: dict[str, TinkerSession] = {}
    events = [
        *_token_events(tokens_of(project=caller.project, began=began, ended=ended), sessions),
        *_checkpoint_events(caller.project, began, ended, sessions),
    ]
    told = {of.id: {"user_metadata": _texts(of.user_metadata) or None} for of in sessions.values()}
    data = sorted(
        events,
        key=lambda event: (event["bucket_start"], -event["event_info"].get("token_count", 0)),
    )
    return {"data": data, "sessions": told, "cost_data_through": None}


def _token_events(
    rows: Iterable[TinkerTokens], sessions: dict[str, TinkerSession]
) -> Iterator[dict[str, Any]]:
    for row in rows:
        of = row.tinker_session
        assert of is not None, "it is of the project"
        sessions[of.id] = of
        counts: list[tuple[dict[str, Any], int]] = [
            ({"type": "training"}, row.training),
            ({"type": "sampling_prefill", "cached": False}, row.sampling_prefill),
            ({"type": "sampling_prefill", "cached": True}, row.sampling_prefill_cached),
            ({"type": "sampling_sample"}, row.sampling_sample),
        ]
        for info, count in counts:
            if count:
                yield _usage_event(
                    row.hour, of, row.session.base_model, info | {"token_count": count}
                )


def _checkpoint_events(
    project: Project, began: datetime, ended: datetime, sessions: dict[str, TinkerSession]
) -> Iterator[dict[str, Any]]:
    rows = checkpoints_of(project=project).filter(created_at__gte=began, created_at__lt=ended)
    buckets: dict[tuple[datetime, str], dict[str, Any]] = {}
    for row in rows.select_related("model__tinker_session__key__user").order_by("created_at"):
        of, hour = (
            row.model.tinker_session,
            row.created_at.replace(minute=0, second=0, microsecond=0),
        )
        sessions[of.id] = of
        info = {"type": "checkpoint", "count": 0}
        event = buckets.setdefault(
            (hour, row.model_id), _usage_event(hour, of, row.model.base_model, info)
        )
        event["event_info"]["count"] += 1
    yield from buckets.values()


def _usage_event(
    hour: datetime, of: TinkerSession, base_model: str, info: dict[str, Any]
) -> dict[str, Any]:
    return {
        "bucket_start": hour.isoformat(),
        "bucket_end": (hour + timedelta(hours=1)).isoformat(),
        "base_model": base_model,
        "user_id": user_urn(of.key.user) if of.key else None,
        "session_id": of.id,
        "project_id": of.project_id,
        "event_info": info,
    }


def _texts(metadata: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in metadata.items()}


def storage_usage(caller: KeyCaller, *, query: dict[str, str]) -> Json:
    """``GET /billing/usage/checkpoints/current``: what is stored now, by the person whose key made
    it.
    """
    if query.get("project_id", caller.project.id) != caller.project.id:
        return {"data": []}
    rows = checkpoints_of(project=caller.project).order_by()
    of = "model__tinker_session__key__user"
    items = [
        {
            "project_id": caller.project.id,
            "org_user_urn": f"tml:user:{row[of]}" if row[of] is not None else None,
            "user_email": row[f"{of}__email"],
            "user_name": None,
            "checkpoint_count": row["number"],
            "size_bytes": row["size"],
            "size_gigabytes": row["size"] / GIGABYTE,
        }
        for row in rows.values(of, f"{of}__email").annotate(
            number=Count("id"), size=Sum("checkpoint__size_bytes")
        )
    ]
    return {"effective_rate_usd_per_gigabyte_month": None, "data": items}


def _day(query: dict[str, str], name: str) -> date | None:
    if name not in query:
        return None
    try:
        day = datetime.fromisoformat(query[name]).date()
    except ValueError:
        raise InvalidRequest(f"{name} is {query[name]!r}; a day looks like 2026-11-22.") from None
    if day.year not in YEARS:
        raise InvalidRequest(f"{name} must be in a year from {YEARS.start} to {YEARS.stop - 1}.")
    return day
