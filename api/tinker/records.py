"""Training runs, checkpoints and sessions of Tinker clients, as their REST client and command line
read them.
"""

from collections import defaultdict
from typing import Any

from api.rest.authentication import KeyCaller
from api.tinker.answers import Json
from api.tinker.callers import project_check
from api.tinker.requests import ExternalUploadFinish, ExternalUploadStart, PathNamed, TtlSet
from console.errors import InvalidRequest
from console.tinker import checkpoints, external_uploads, services
from console.tinker.models import TinkerCheckpoint, TinkerModel
from console.tinker.traces import trace_url
from console.users.keys import key_session_check

TYPES = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
MAX_PAGE = 1000


def runs(caller: KeyCaller, *, query: dict[str, str]) -> Json:
    """``GET /training_runs``."""
    offset, limit = _page(query)
    rows = services.models_of(project=caller.project)
    if _owned(caller, query):
        rows = rows.filter(tinker_session__key__user=caller.key.user)
    page = _runs(caller, list(rows[offset : offset + limit]))
    return {"training_runs": page, "cursor": _cursor(offset, limit, rows.count())}


def run(caller: KeyCaller, *, model_id: str, query: dict[str, str]) -> Json:
    """``GET /training_runs/{id}``."""
    (found,) = _runs(caller, [services.model_get(project=caller.project, model_id=model_id)])
    return found


def run_checkpoints(caller: KeyCaller, *, model_id: str, query: dict[str, str]) -> Json:
    """``GET /training_runs/{id}/checkpoints``."""
    services.model_get(project=caller.project, model_id=model_id)
    rows = _newest(list(checkpoints.checkpoints_of(project=caller.project, model_id=model_id)))
    return {"checkpoints": [checkpoint_view(row) for row in rows], "cursor": None}


def all_checkpoints(caller: KeyCaller, *, query: dict[str, str]) -> Json:
    """``GET /checkpoints``."""
    offset, limit = _page(query)
    rows = _newest(list(checkpoints.checkpoints_of(project=caller.project)))
    page = [checkpoint_view(row) for row in rows[offset : offset + limit]]
    return {"checkpoints": page, "cursor": _cursor(offset, limit, len(rows))}


def checkpoint_delete(caller: KeyCaller, *, model_id: str, segment: str, name: str) -> None:
    """``DELETE /training_runs/{id}/checkpoints/{segment}/{name}``."""
    checkpoints.checkpoint_delete(checkpoint=_changed(caller, model_id, segment, name))


def checkpoint_publish(caller: KeyCaller, *, model_id: str, segment: str, name: str) -> None:
    """``POST .../publish``: every project of this server may read it."""
    found = _changed(caller, model_id, segment, name)
    checkpoints.checkpoint_publish(checkpoint=found, public=True)


def checkpoint_unpublish(caller: KeyCaller, *, model_id: str, segment: str, name: str) -> None:
    """``DELETE .../publish``."""
    found = _changed(caller, model_id, segment, name)
    checkpoints.checkpoint_publish(checkpoint=found, public=False)


def checkpoint_ttl(
    caller: KeyCaller, body: TtlSet, *, model_id: str, segment: str, name: str
) -> None:
    """``PUT .../ttl``."""
    found = _changed(caller, model_id, segment, name)
    checkpoints.checkpoint_ttl_set(checkpoint=found, ttl_seconds=body.ttl_seconds)


def external_urls(caller: KeyCaller, *, model_id: str, name: str) -> Json:
    """``GET .../checkpoints/external_weights/{name}/external_weights_urls``."""
    found = _own(caller, model_id, "external_weights", name)
    urls, expires_at = checkpoints.checkpoint_urls(found)
    return {"urls": urls, "expires": expires_at.isoformat()}


def external_upload_start(caller: KeyCaller, body: ExternalUploadStart) -> Json:
    """``POST /external_weights_upload_start``, a call of 0.39."""
    project_check(caller, body.destination_project_id)
    upload, urls, expires_at = external_uploads.external_upload_start(
        project=caller.project, key=caller.key, base_model=body.base_model, lora=body.lora_config
    )
    return {"upload_id": upload.id, "urls": urls, "expires": expires_at.isoformat()}


def external_upload_finish(caller: KeyCaller, body: ExternalUploadFinish) -> Json:
    """``POST /external_weights_upload_finish``."""
    stored = external_uploads.external_upload_finish(key=caller.key, upload_id=body.upload_id)
    return {"tinker_path": stored.path}


def weights_info(caller: KeyCaller, body: PathNamed) -> Json:
    """``POST /weights_info``."""
    found = checkpoints.checkpoint_find(project=caller.project, path=body.tinker_path)
    lora = found.lora
    parts = {name: lora[name] for name in ("train_unembed", "train_mlp", "train_attn")}
    of = {
        "base_model": found.model.base_model,
        "is_lora": lora["rank"] > 0,
        "lora_rank": lora["rank"] or None,
    }
    return of | parts | {"optimizer_config": {"type": "adamw"}}


def sessions(caller: KeyCaller, *, query: dict[str, str]) -> Json:
    """``GET /sessions``."""
    offset, limit = _page(query)
    rows = services.tinker_sessions_of(project=caller.project)
    if _owned(caller, query):
        rows = rows.filter(key__user=caller.key.user)
    return {"sessions": [row.id for row in rows[offset : offset + limit]]}


def session(caller: KeyCaller, *, session_id: str, query: dict[str, str]) -> Json:
    """``GET /sessions/{id}``."""
    found = services.tinker_session_get(project=caller.project, tinker_session_id=session_id)
    return {
        "training_run_ids": list(found.models.values_list("id", flat=True)),
        "sampler_ids": list(found.samplers.values_list("id", flat=True)),
        "user_metadata": found.user_metadata,
        "display_name": found.display_name or None,
    }


def trace_export(caller: KeyCaller, *, session_id: str) -> Json:
    """``GET /sessions/{id}/trace_export``."""
    found = services.tinker_session_get(project=caller.project, tinker_session_id=session_id)
    if (url := trace_url(tinker_session=found)) is None:
        return {
            "status": "failed",
            "error": "This session has had no runtime: there is nothing to show.",
        }
    return {"status": "ready", "url": url}


def key_get(caller: KeyCaller) -> Json:
    """``GET /auth/apikey/me``."""
    key = caller.key
    owner = {
        "org_details": {"name": caller.project.name},
        "user_details": {"email": key.user.email},
    }
    number = int(key.id.partition("_")[2] or "0", 16) >> 12  # a client wants a number
    return {"key_id": number, "name": key.name, "note": "", "details": owner}


def _own(caller: KeyCaller, model_id: str, segment: str, name: str) -> TinkerCheckpoint:
    return checkpoints.checkpoint_own(
        project=caller.project, model_id=model_id, segment=segment, name=name
    )


def _changed(caller: KeyCaller, model_id: str, segment: str, name: str) -> TinkerCheckpoint:
    """One that the key may change. Raises NotFound; Forbidden where the key's models or cap leave
    it out.
    """
    found = _own(caller, model_id, segment, name)
    started_by = found.checkpoint.session.key_id
    key_session_check(key=caller.key, base_model=found.model.base_model, started_by=started_by)
    return found


def _runs(caller: KeyCaller, models: list[TinkerModel]) -> list[dict[str, Any]]:
    """The project's models as the wire has them, with one look at the checkpoints of all."""
    stored = defaultdict[str, list[TinkerCheckpoint]](list)
    for row in checkpoints.checkpoints_of(project=caller.project).filter(
        model__in=[model.id for model in models]
    ):
        stored[row.model_id].append(row)
    return [_run(model, stored[model.id]) for model in models]


def _run(model: TinkerModel, stored: list[TinkerCheckpoint]) -> dict[str, Any]:
    last = {kind: next((row for row in stored if row.segment == kind), None) for kind in TYPES}
    state, sampler = last["weights"], last["sampler_weights"]
    return {
        "training_run_id": model.id,
        "base_model": model.base_model,
        "model_owner": model.tinker_session.key.user.email if model.tinker_session.key else "",
        "is_lora": model.lora["rank"] > 0,
        "corrupted": False,
        "lora_rank": model.lora["rank"] or None,
        "last_request_time": model.last_request_at.isoformat(),
        "last_checkpoint": checkpoint_view(state) if state else None,
        "last_sampler_checkpoint": checkpoint_view(sampler) if sampler else None,
        "user_metadata": model.user_metadata,
    }


def checkpoint_view(row: TinkerCheckpoint) -> dict[str, Any]:
    """A checkpoint in the wire's words."""
    return {
        "checkpoint_id": f"{row.segment}/{row.name}",
        "checkpoint_type": TYPES[row.segment],
        "time": row.created_at.isoformat(),
        "tinker_path": row.path,
        "size_bytes": row.checkpoint.size_bytes,
        "public": row.public,
        "user_metadata": row.user_metadata or None,
        "base_model": row.model.base_model,
        "expires_at": row.expires_at.isoformat() if row.expires_at else None,
    }


def _newest(rows: list[TinkerCheckpoint]) -> list[TinkerCheckpoint]:
    """Of several with one name the first, which is the newest."""
    by_path: dict[str, TinkerCheckpoint] = {}
    for row in rows:
        by_path.setdefault(row.path, row)
    return list(by_path.values())


def _owned(caller: KeyCaller, query: dict[str, str]) -> bool:
    """Whether the caller's own rows alone are wanted, not the whole project's. Raises NotFound,
    InvalidRequest.
    """
    project_check(caller, query.get("project_id"))
    scope = query.get("access_scope", "accessible")
    if scope not in ("owned", "accessible"):
        raise InvalidRequest(f"access_scope is {scope!r}; it is owned or accessible.")
    return scope == "owned"


def _page(query: dict[str, str]) -> tuple[int, int]:
    values = []
    for name, otherwise in (("offset", "0"), ("limit", "20")):
        text = query.get(name, otherwise)
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise InvalidRequest(f"{name} must be a number.")
        values.append(int(text))
    return values[0], min(values[1], MAX_PAGE)


def _cursor(offset: int, limit: int, total: int) -> dict[str, int]:
    return {"offset": offset, "limit": limit, "total_count": total}
