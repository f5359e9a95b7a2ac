"""Episodes, and the batches that steps were made of: checked here, served by the session's gateway;
those that are archived come from the object store.
"""

from collections.abc import AsyncIterator
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from api.gateway_proxy import ID_FORM, gateway_response
from api.presenters import annotation_view
from api.rest.authentication import Caller
from api.views.queries import ExportQuery
from console.errors import NotFound
from console.server.request_id import request_id_of
from console.sessions.episodes.annotations import annotations_export
from console.sessions.episodes.batches import StoredBatch, batch_read
from console.sessions.episodes.changes import config_changed, rewards_changed
from console.sessions.episodes.documents import archive_export
from console.sessions.selectors import session_get
from tinkerscript.wire.episodes import (
    EpisodeAbandon,
    EpisodeBegin,
    EpisodeEnd,
    EpisodeExport,
    EpisodesHeartbeat,
    EpisodesRescore,
    EpisodesRescored,
)
from tinkerscript.wire.sessions import SessionKind, SessionState
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate

NDJSON = "application/x-ndjson"
WITHOUT_RUNTIME = (SessionState.SUSPENDED, SessionState.STOPPING)


async def episode_begin(
    caller: Caller, request: HttpRequest, session_id: str, body: EpisodeBegin
) -> HttpResponseBase:
    """Begin an episode: a base_url and a key for any OpenAI client."""
    return await gateway_response(caller, request, session_id, "episodes", body=body)


def episode_export(caller: Caller, session_id: str, query: ExportQuery) -> EpisodeExport:
    """Presigned URLs of the archive: every episode that has ended, as Parquet; annotations page by
    page.
    """
    session = session_get(project=caller.project, session_id=session_id)
    export = archive_export(project=caller.project, session_id=session_id)
    page, more = annotations_export(session=session, after=query.annotations_after)
    said = [annotation_view(row) for row in page]
    return export.model_copy(update={"annotations": said, "annotations_cursor": more})


async def episode_end(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str, body: EpisodeEnd
) -> HttpResponseBase:
    """End an episode with its reward; acknowledged once it is on disk."""
    return await gateway_response(
        caller, request, session_id, "episodes", episode_id, "end", body=body
    )


async def episode_abandon(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str, body: EpisodeAbandon
) -> HttpResponseBase:
    """Abandon an episode; it is counted and never trained."""
    return await gateway_response(
        caller, request, session_id, "episodes", episode_id, "abandon", body=body
    )


async def episode_heartbeat(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str
) -> HttpResponseBase:
    """Keep a quiet episode from expiring."""
    return await gateway_response(caller, request, session_id, "episodes", episode_id, "heartbeat")


async def episodes_heartbeat(
    caller: Caller, request: HttpRequest, session_id: str, body: EpisodesHeartbeat
) -> HttpResponseBase:
    """Keep quiet episodes from expiring, all of a client in one request."""
    return await gateway_response(caller, request, session_id, "heartbeats", body=body)


async def episodes_rescore(
    caller: Caller, request: HttpRequest, session_id: str, body: EpisodesRescore
) -> HttpResponseBase:
    """Give episodes that wait to be trained other rewards; the session's record has what was
    changed, and by whom.
    """
    answer = await gateway_response(caller, request, session_id, "rescore", body=body)
    if isinstance(answer, HttpResponse) and answer.status_code == 200:
        done = EpisodesRescored.model_validate_json(answer.content)
        await sync_to_async(rewards_changed)(done=done, **_of_whom(caller, request, session_id))
    return answer


async def session_config_update(
    caller: Caller, request: HttpRequest, session_id: str, body: ConfigUpdate
) -> HttpResponseBase:
    """Let a running session train its next steps with another learning_rate or kl_coef."""
    answer = await gateway_response(caller, request, session_id, "config", body=body)
    if isinstance(answer, HttpResponse) and answer.status_code == 200:
        change = ConfigChange.model_validate_json(answer.content)
        await sync_to_async(config_changed)(change=change, **_of_whom(caller, request, session_id))
    return answer


async def accounting_get(caller: Caller, request: HttpRequest, session_id: str) -> HttpResponseBase:
    """Where every begun episode went."""
    return await gateway_response(caller, request, session_id, "accounting")


async def batch_get(
    caller: Caller, request: HttpRequest, session_id: str, batch: str
) -> HttpResponseBase:
    """A batch as JSON lines, by its step or, while the session runs, by the name that its refusal
    gave it.
    """
    project = caller.project
    session = await sync_to_async(session_get)(project=project, session_id=session_id)
    state = SessionState(session.state)
    if session.kind == SessionKind.SERVING or not (state.is_terminal or state in WITHOUT_RUNTIME):
        return await gateway_response(caller, request, session_id, "batches", batch, stream=True)
    if not ID_FORM.fullmatch(batch):
        raise NotFound(
            "This session has no such batch.", hint="A batch is named by the number of its step."
        )
    found = await sync_to_async(batch_read)(project=project, session_id=session_id, name=batch)
    return StreamingHttpResponse(_pieces(found), content_type=NDJSON)


async def _pieces(batch: StoredBatch) -> AsyncIterator[bytes]:
    pieces = batch.pieces()
    try:
        while piece := await sync_to_async(lambda: next(pieces, b""))():
            yield piece
    finally:
        await sync_to_async(pieces.close)()


def _of_whom(caller: Caller, request: HttpRequest, session_id: str) -> dict[str, Any]:
    """Whose change of which session goes on its record."""
    return {
        "project": caller.project,
        "session_id": session_id,
        "person": caller.user,
        "key_id": caller.key.id if caller.key else None,
        "request_id": request_id_of(request),
    }
