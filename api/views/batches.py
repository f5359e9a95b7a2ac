"""Batches: what a step was made of, token by token, answered by the session's gateway."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from api.forward import forward


async def batch_get(request: HttpRequest, session_id: str, batch: str) -> HttpResponseBase:
    """A batch as JSON lines, by its step or by the name that its refusal gave it."""
    return await forward(request, session_id, "batches", batch, stream=True)
