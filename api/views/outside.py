"""Calls of models that stand elsewhere."""

from api.rest.requests import ApiRequest
from console.operations.outside_calls import outside_chat
from tinkerscript.wire.serving.outside import OutsideAnswer, OutsideCall


async def outside_call(request: ApiRequest, body: OutsideCall) -> OutsideAnswer:
    """Ask another OpenAI-compatible endpoint for one chat completion, from this server."""
    answered = await outside_chat(
        project_id=request.auth.project.id,
        base_url=body.base_url,
        api_key=body.api_key,
        body=body.body,
    )
    return OutsideAnswer(status=answered.status, body=answered.body)
