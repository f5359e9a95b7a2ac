"""Batches: what a step was made of, token by token, read from the session's gateway."""

from django.http.response import HttpResponseBase

from api.gateway_proxy import forward
from api.rest.requests import ApiRequest


async def batch_get(request: ApiRequest, session_id: str, batch: str) -> HttpResponseBase:
    """A batch as JSON lines, by its step or by the name that its refusal gave it."""
    return await forward(request, session_id, "batches", batch, stream=True)
