"""Middleware: what browsers send to django-allauth's JSON endpoints is read as strictly as a body
of the REST API.

allauth reads it with Python's own reader, whose errors for a body that is nested too deeply, or has
a number too long, are no ValueError that allauth knows, and it hands on text that neither a hash
nor a database takes. Its views then fail, and each failure is an error with its stack in the log
that a stranger writes as often as they like.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

from api.rest.errors import error_response
from api.rest.parsing import MAX_MEMBERS, json_read
from console.errors import InvalidRequest

PREFIX = "/_allauth/"


@sync_and_async_middleware
def account_bodies(get_response: Callable) -> Callable:
    """Refuses a body that is no JSON with 400."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponse:
            return _refusal(request) or await get_response(request)

        return respond_async

    def respond(request: HttpRequest) -> HttpResponse:
        return _refusal(request) or get_response(request)

    return respond


def _refusal(request: HttpRequest) -> HttpResponse | None:
    if not request.path.startswith(PREFIX) or not request.body:
        return None
    try:
        json_read(request.body, MAX_MEMBERS)
    except InvalidRequest as refusal:
        return error_response(request, refusal)
    return None
