"""Batches: what a step was made of, token by token, from the session's gateway or, without one,
from the store.
"""

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase

from api.gateway_proxy import ID_FORM, gateway_response
from api.rest.requests import ApiRequest
from console.errors import NotFound
from console.sessions.episodes.batches import StoredBatch, batch_read
from console.sessions.selectors import session_get
from tinkerscript.wire.sessions import SessionKind, SessionState

NDJSON = "application/x-ndjson"
WITHOUT_RUNTIME = (SessionState.SUSPENDED, SessionState.STOPPING)


async def batch_get(request: ApiRequest, session_id: str, batch: str) -> HttpResponseBase:
    """A batch as JSON lines, by its step or, while the session runs, by the name that its refusal
    gave it.
    """
    project = request.auth.project
    session = await sync_to_async(session_get)(project=project, session_id=session_id)
    state = SessionState(session.state)
    if session.kind == SessionKind.SERVING or not (state.is_terminal or state in WITHOUT_RUNTIME):
        return await gateway_response(request, session_id, "batches", batch, stream=True)
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
