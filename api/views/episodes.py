"""Episodes: checked here, answered by the session's gateway; but those that are archived come from the store."""

from django.http import HttpRequest, HttpResponse
from ninja import Query

from api.forward import forward
from console.sessions import archive
from tinkerscript.wire.episodes import EpisodeAbandon, EpisodeBegin, EpisodeEnd, EpisodeExport


async def episode_begin(request: HttpRequest, session_id: str, body: EpisodeBegin) -> HttpResponse:
    """Begin an episode: a base_url and a key for any OpenAI client."""
    return await forward(request, session_id, "episodes", body=body)


async def episode_list(
    request: HttpRequest, session_id: str, cursor: str | None = None, limit: int = Query(50, ge=1, le=200)
) -> HttpResponse:
    """The session's episodes, newest first."""
    return await forward(request, session_id, "episodes")


def episode_export(request: HttpRequest, session_id: str) -> EpisodeExport:
    """Presigned URLs of the archive: every episode that has ended, as Parquet."""
    return archive.archive_export(project=request.auth.project, session_id=session_id)


async def episode_get(request: HttpRequest, session_id: str, episode_id: str) -> HttpResponse:
    """One episode."""
    return await forward(request, session_id, "episodes", episode_id)


async def episode_calls(
    request: HttpRequest,
    session_id: str,
    episode_id: str,
    cursor: str | None = None,
    limit: int = Query(50, ge=1, le=200),
) -> HttpResponse:
    """An episode's LLM calls with their token ids, and how they merged."""
    return await forward(request, session_id, "episodes", episode_id, "calls")


async def episode_end(request: HttpRequest, session_id: str, episode_id: str, body: EpisodeEnd) -> HttpResponse:
    """End an episode with its reward; acknowledged once it is on disk."""
    return await forward(request, session_id, "episodes", episode_id, "end", body=body)


async def episode_abandon(request: HttpRequest, session_id: str, episode_id: str, body: EpisodeAbandon) -> HttpResponse:
    """Abandon an episode; it is counted and never trained."""
    return await forward(request, session_id, "episodes", episode_id, "abandon", body=body)


async def episode_heartbeat(request: HttpRequest, session_id: str, episode_id: str) -> HttpResponse:
    """Keep a quiet episode from expiring."""
    return await forward(request, session_id, "episodes", episode_id, "heartbeat")


async def accounting_get(request: HttpRequest, session_id: str) -> HttpResponse:
    """Where every begun episode went."""
    return await forward(request, session_id, "accounting")
