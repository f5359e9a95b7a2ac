"""Episodes for reading, in every state of their session: from the rows and documents that its
runtime reported.

A running session's own list and an episode that is not in the object store yet come from its
gateway.
"""

import json
from collections.abc import Iterable
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from api.gateway_proxy import gateway_response
from api.presenters import (
    annotation_view,
    episode_list_view,
    episode_view,
    group_list_view,
    step_view,
)
from api.rest.authentication import Caller
from api.rest.errors import json_response
from api.views.queries import (
    DocumentsQuery,
    EpisodeFilterQuery,
    EpisodeQuery,
    GroupQuery,
    NearestQuery,
    NeighboursQuery,
    PageQuery,
    TimelinesQuery,
)
from console.errors import Conflict, InvalidRequest, NotFound, UnknownCursor
from console.server.request_id import request_id_of
from console.sessions.episodes import annotations, facets, selectors
from console.sessions.episodes.annotations import MAX_LISTED, annotations_of
from console.sessions.episodes.documents import calls_page, document_read, documents_export
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.models import EpisodeRecord
from console.sessions.runtime.episode_erasure import episode_erase as erase
from console.sessions.selectors import session_get
from tinkerscript.wire.episodes import (
    AnnotationList,
    EpisodeAnnotate,
    EpisodeNeighbours,
    EpisodeView,
)
from tinkerscript.wire.reading.documents import EpisodeDocuments
from tinkerscript.wire.reading.facets import EpisodeFacets, NearestPlays, bound_of
from tinkerscript.wire.reading.token_pages import outline, timelines_page
from tinkerscript.wire.reading.trajectories import GroupList, StepView
from tinkerscript.wire.sessions import SessionState


async def episode_list(
    caller: Caller, request: HttpRequest, session_id: str, query: EpisodeQuery
) -> HttpResponseBase:
    """The session's episodes, newest first if no sort is given.

    With neither filter nor sort the list of a running session is that of this moment; else, and in
    every other state, it is what the runtime has reported, which it does within seconds.
    """
    asks = query.model_fields_set - {"cursor", "limit"}
    if not asks and await sync_to_async(_is_ready)(caller, session_id):
        return await gateway_response(caller, request, session_id, "episodes")
    return await sync_to_async(_list)(caller, session_id, query)


def episode_facets(caller: Caller, session_id: str, query: EpisodeFilterQuery) -> EpisodeFacets:
    """Rewards, fates and tasks of the episodes that match, counted; of those that the runtime has
    reported.
    """
    return facets.episode_facets(project=caller.project, session_id=session_id, only=_filter(query))


def episodes_nearest(caller: Caller, session_id: str, query: NearestQuery) -> NearestPlays:
    """Each task at its plays nearest to two versions, what lost most first: tasks that take turns
    are compared too.
    """
    return facets.episodes_nearest(
        project=caller.project,
        session_id=session_id,
        held_out=query.held_out,
        from_version=query.from_version,
        to_version=query.to_version,
    )


def episode_neighbours(
    caller: Caller, session_id: str, episode_id: str, query: NeighboursQuery
) -> EpisodeNeighbours:
    """What stands before and after an episode in the list of those that match, however long the
    list is.
    """
    previous, following = selectors.episode_neighbours(
        project=caller.project,
        session_id=session_id,
        episode_id=episode_id,
        only=_filter(query),
        sort=query.sort,
    )
    return EpisodeNeighbours(previous=previous, next=following)


async def episode_get(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str
) -> EpisodeView | HttpResponseBase:
    """One episode."""
    record = await sync_to_async(_record_alone)(caller, session_id, episode_id)
    if record is None:
        return await gateway_response(caller, request, session_id, "episodes", episode_id)
    return episode_view(record)


async def episode_calls(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str, query: PageQuery
) -> HttpResponseBase:
    """An episode's LLM calls with their token ids, and how they merged."""
    record = await sync_to_async(_record_alone)(caller, session_id, episode_id)
    if record is None:
        return await gateway_response(caller, request, session_id, "episodes", episode_id, "calls")
    return await sync_to_async(_calls)(record, query)


async def episode_timelines(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str, query: TimelinesQuery
) -> HttpResponseBase:
    """Every token of an episode with its text, log-probability, version and advantage."""
    record = await sync_to_async(_record)(caller, session_id, episode_id)
    if record is not None and record.pack is not None:
        return await sync_to_async(_annotated_timelines)(record, query)
    if record is not None and not await sync_to_async(_is_ready)(caller, session_id):
        raise _not_stored()
    answer = await gateway_response(
        caller, request, session_id, "episodes", episode_id, "timelines", query={}
    )
    if not isinstance(answer, HttpResponse) or answer.status_code != 200:
        return answer
    told = json.loads(answer.content)
    if record is not None:
        told["episode"]["annotations"] = await sync_to_async(_annotations)(record)
    return await sync_to_async(_timelines)(
        told["episode"], told["document"], told["advantages"], query
    )


def episode_documents(caller: Caller, session_id: str, query: DocumentsQuery) -> EpisodeDocuments:
    """Presigned URLs of what every ended episode's pages are made of, to read the run without a
    server.
    """
    project = caller.project
    return documents_export(
        project=project, session_id=session_id, after=query.cursor, limit=query.limit
    )


def episode_annotate(
    caller: Caller, session_id: str, episode_id: str, body: EpisodeAnnotate
) -> AnnotationList:
    """Say what the caller thinks of an episode; once its runtime has reported it, which takes
    seconds.
    """
    said = annotations.episode_annotate(
        project=caller.project,
        session_id=session_id,
        episode_id=episode_id,
        body=body,
        person=caller.user,
    )
    return AnnotationList(items=[annotation_view(row) for row in said])


async def episode_erase(
    caller: Caller, request: HttpRequest, session_id: str, episode_id: str
) -> HttpResponseBase:
    """Erase what is kept of an episode of a session that is ready or has ended: row, tokens,
    annotations, copies.
    """
    by_runtime = await sync_to_async(_is_ready)(caller, session_id)
    if by_runtime:
        answer = await gateway_response(caller, request, session_id, "episodes", episode_id)
        if answer.status_code != 204:
            return answer
    await sync_to_async(erase)(
        project=caller.project,
        session_id=session_id,
        episode_id=episode_id,
        actor=caller.user.email,
        key_id=caller.key.id if caller.key else None,
        request_id=request_id_of(request),
        by_runtime=by_runtime,
    )
    return HttpResponse(status=204)


def group_list(caller: Caller, session_id: str, query: GroupQuery) -> GroupList:
    """The groups that were trained or wait to be, the newest first."""
    found = selectors.group_list(
        project=caller.project, session_id=session_id, **query.model_dump()
    )
    return group_list_view(*found)


def step_get(caller: Caller, session_id: str, step: str) -> StepView:
    """What one optimizer step measured, and the groups that it was made of."""
    session_get(project=caller.project, session_id=session_id)
    if not (step.isascii() and step.isdigit() and len(step) < 10):
        raise NotFound(
            "There is no such step in this session.", hint="A step is a number, from 1 on."
        )
    return step_view(
        selectors.step_get(project=caller.project, session_id=session_id, step=int(step))
    )


def _record_alone(caller: Caller, session_id: str, episode_id: str) -> EpisodeRecord | None:
    """The record, read without the runtime; a session on its way up may know of more."""
    ready = _is_ready(caller, session_id)
    return None if ready else _record(caller, session_id, episode_id)


def _is_ready(caller: Caller, session_id: str) -> bool:
    session = session_get(project=caller.project, session_id=session_id)
    return session.state == SessionState.READY


def _record(caller: Caller, session_id: str, episode_id: str) -> EpisodeRecord | None:
    try:
        return selectors.episode_get(
            project=caller.project, session_id=session_id, episode_id=episode_id
        )
    except NotFound:
        # Raised again for a session that is not the caller's; of one that has ended nothing more is
        # known.
        session = session_get(project=caller.project, session_id=session_id)
        if (
            SessionState(session.state) in (SessionState.SUSPENDED, SessionState.STOPPING)
            or SessionState(session.state).is_terminal
        ):
            raise
        return None


def _list(caller: Caller, session_id: str, query: EpisodeQuery) -> HttpResponse:
    page, more = selectors.episode_list(
        project=caller.project,
        session_id=session_id,
        only=_filter(query),
        sort=query.sort or selectors.EpisodeSort.NEWEST,
        cursor=query.cursor,
        limit=query.limit,
    )
    session = session_get(project=caller.project, session_id=session_id)
    ids = [record.episode_id for record in page]
    said = annotations_of(session=session, episode_ids=ids, most=MAX_LISTED)
    # Written here, beside the event loop: a full page has hundreds of kilobytes.
    return json_response(episode_list_view(page, said, more).model_dump_json())


def _filter(query: EpisodeFilterQuery) -> selectors.EpisodeFilter:
    if (
        query.reward_min is not None
        and query.reward_max is not None
        and query.reward_min > query.reward_max
    ):
        raise InvalidRequest(
            "reward_min is above reward_max: no episode can match.", hint="Exchange them."
        )
    return selectors.EpisodeFilter(
        task=query.task,
        fates=query.fate,
        eval=query.eval,
        reward_min=query.reward_min,
        reward_max=query.reward_max,
        version=query.version,
        step=query.step,
        agent=query.agent,
        text=query.q,
        thumb=query.thumb,
        commented=query.commented,
        metrics=[bound_of(text) for text in query.metric],
    )


def _calls(record: EpisodeRecord, query: PageQuery) -> HttpResponse:
    if record.pack is None:
        raise _not_stored()
    if query.cursor is not None and not (
        query.cursor.isascii() and query.cursor.isdigit() and len(query.cursor) < 10
    ):
        raise UnknownCursor()
    document, start = document_read(record), int(query.cursor or 0)
    end = start + query.limit
    more = str(end) if end < len(document["calls"]) else None
    items = calls_page(document, start=start, limit=query.limit)
    return json_response(
        json.dumps({"report": document["report"], "items": items, "next_cursor": more})
    )


def _annotated_timelines(record: EpisodeRecord, query: TimelinesQuery) -> HttpResponse:
    said = annotations_of(session=record.session, episode_ids=[record.episode_id])[
        record.episode_id
    ]
    return stored_timelines(record, query, annotations=said)


def stored_timelines(
    record: EpisodeRecord, query: TimelinesQuery, *, annotations: Iterable[EpisodeAnnotation]
) -> HttpResponse:
    """An episode's tokens from the object store. Raises Conflict where they are not there (yet)."""
    if record.pack is None:
        raise _not_stored()
    episode = episode_view(record, annotations).model_dump(mode="json")
    return _timelines(episode, document_read(record), record.advantages or record.advantage, query)


def _timelines(episode: Any, document: Any, advantages: Any, query: TimelinesQuery) -> HttpResponse:
    runs, more = timelines_page(
        document, advantages=advantages, start=query.cursor, limit=query.limit
    )
    first = {"report": document["report"], "calls": document["calls"]}
    whole = first | {"outline": outline(document, advantages)} if query.cursor == 0 else {}
    output = document["output"] or {}
    reported = {name: output.get(name) for name in ("rewards_by_call", "metadata")}
    answer: dict[str, Any] = {"report": None, "calls": [], "outline": None} | whole
    answer |= {
        "episode": episode | reported,
        "timelines": runs,
        "next_cursor": str(more) if more is not None else None,
    }
    return json_response(json.dumps(answer))


def _annotations(record: EpisodeRecord) -> list[dict[str, Any]]:
    said = annotations_of(session=record.session, episode_ids=[record.episode_id])[
        record.episode_id
    ]
    return [annotation_view(row).model_dump(mode="json") for row in said]


def _not_stored() -> Conflict:
    return Conflict(
        "The tokens of this episode are not in the object store.",
        hint="They are stored within seconds of its end. An open episode has none yet; those of "
        "one whose runtime was"
        " lost before are in its journal alone.",
    )
