"""Calls of models that stand elsewhere."""

from contextlib import suppress
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async

from api.rest.requests import ApiRequest
from console.audit.services import audit_record
from console.operations.outside_calls import outside_chat
from console.server.request_id import request_id_of
from tinkerscript.wire.serving import OutsideAnswer, OutsideCall


async def outside_call(request: ApiRequest, body: OutsideCall) -> OutsideAnswer:
    """Ask another OpenAI-compatible endpoint for one chat completion, from this server.

    The audit log has who called which host, written before anything is sent there: of the body the
    model's name alone, and never the key.
    """
    caller = request.auth
    await sync_to_async(audit_record)(
        project_id=caller.project.id,
        actor=caller.user.email,
        key_id=caller.key.id if caller.key else None,
        action="outside_call",
        target={"host": _host(body.base_url)},
        details={"model": str(body.body.get("model", ""))[:200]},
        request_id=request_id_of(request.http),
    )
    answered = await outside_chat(
        project_id=caller.project.id,
        base_url=body.base_url,
        api_key=body.api_key,
        body=body.body,
    )
    return OutsideAnswer(status=answered.status, body=answered.body)


def _host(url: str) -> str:
    """Host and port, without a name and password before them; empty where there is none."""
    with suppress(ValueError):
        return urlsplit(url).netloc.rpartition("@")[2]
    return ""
