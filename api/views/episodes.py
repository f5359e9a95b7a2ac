"""Episodes: checked here, served by the session's gateway; those that are archived come from the
object store.
"""

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from api.episode_presenters import annotation_view
from api.gateway_proxy import gateway_response
from api.rest.requests import ApiRequest
from api.views.queries import ExportQuery
from console.server.request_id import request_id_of
from console.sessions.episodes.annotations import annotations_export
from console.sessions.episodes.rewards import rewards_changed
from console.sessions.runtime import archive
from console.sessions.runtime.config_changes import config_changed
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
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate


async def episode_begin(
    request: ApiRequest, session_id: str, body: EpisodeBegin
) -> HttpResponseBase:
    """Begin an episode: a base_url and a key for any OpenAI client."""
    return await gateway_response(request, session_id, "episodes", body=body)


def episode_export(request: ApiRequest, session_id: str, query: ExportQuery) -> EpisodeExport:
    """Presigned URLs of the archive: every episode that has ended, as Parquet; annotations page by
    page.
    """
    session = session_get(project=request.auth.project, session_id=session_id)
    export = archive.archive_export(project=request.auth.project, session_id=session_id)
    page, more = annotations_export(session=session, after=query.annotations_after)
    said = [annotation_view(row) for row in page]
    return export.model_copy(update={"annotations": said, "annotations_cursor": more})


async def episode_end(
    request: ApiRequest, session_id: str, episode_id: str, body: EpisodeEnd
) -> HttpResponseBase:
    """End an episode with its reward; acknowledged once it is on disk."""
    return await gateway_response(request, session_id, "episodes", episode_id, "end", body=body)


async def episode_abandon(
    request: ApiRequest, session_id: str, episode_id: str, body: EpisodeAbandon
) -> HttpResponseBase:
    """Abandon an episode; it is counted and never trained."""
    return await gateway_response(request, session_id, "episodes", episode_id, "abandon", body=body)


async def episode_heartbeat(
    request: ApiRequest, session_id: str, episode_id: str
) -> HttpResponseBase:
    """Keep a quiet episode from expiring."""
    return await gateway_response(request, session_id, "episodes", episode_id, "heartbeat")


async def episodes_heartbeat(
    request: ApiRequest, session_id: str, body: EpisodesHeartbeat
) -> HttpResponseBase:
    """Keep quiet episodes from expiring, all of a client in one request."""
    return await gateway_response(request, session_id, "heartbeats", body=body)


async def episodes_rescore(
    request: ApiRequest, session_id: str, body: EpisodesRescore
) -> HttpResponseBase:
    """Give episodes that wait to be trained other rewards; the session's record has what was
    changed, and by whom.
    """
    answer = await gateway_response(request, session_id, "rescore", body=body)
    if isinstance(answer, HttpResponse) and answer.status_code == 200:
        await sync_to_async(rewards_changed)(
            project=request.auth.project,
            session_id=session_id,
            person=request.auth.user,
            key_id=request.auth.key.id if request.auth.key else None,
            request_id=request_id_of(request.http),
            done=EpisodesRescored.model_validate_json(answer.content),
        )
    return answer


async def session_config_update(
    request: ApiRequest, session_id: str, body: ConfigUpdate
) -> HttpResponseBase:
    """Let a running session train its next steps with another learning_rate or kl_coef."""
    answer = await gateway_response(request, session_id, "config", body=body)
    if isinstance(answer, HttpResponse) and answer.status_code == 200:
        await sync_to_async(config_changed)(
            project=request.auth.project,
            session_id=session_id,
            person=request.auth.user,
            key_id=request.auth.key.id if request.auth.key else None,
            request_id=request_id_of(request.http),
            change=ConfigChange.model_validate_json(answer.content),
        )
    return answer


async def accounting_get(request: ApiRequest, session_id: str) -> HttpResponseBase:
    """Where every begun episode went."""
    return await gateway_response(request, session_id, "accounting")
