"""Middleware that compresses JSON of the API for clients that can read it so: columns and lists
shrink tenfold.

Only responses to GET. What is made anew and shown once, a key or a link, is a response to POST: a
compressed secret beside text that somebody else chose tells its letters by its length (BREACH).
Django adds a random length as well.
"""

import asyncio
from collections.abc import Callable
from inspect import iscoroutinefunction

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.decorators import sync_and_async_middleware

API = "/v1/"
LEAST_BYTES = 1024  # below it a response is one packet, compressed or not
# about a millisecond of work; more is done beside the loop that serves the others
MOST_AT_ONCE_BYTES = 64 << 10


@sync_and_async_middleware
def compress_api(get_response: Callable) -> Callable:
    """Middleware. Streams, and what has an encoding already, are left as they are."""
    compress = GZipMiddleware(get_response).process_response
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            response = await get_response(request)
            if not _is_worth_it(request, response):
                return response
            if len(response.content) <= MOST_AT_ONCE_BYTES:
                return compress(request, response)
            return await asyncio.to_thread(compress, request, response)

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        return compress(request, response) if _is_worth_it(request, response) else response

    return respond


def _is_worth_it(request: HttpRequest, response: HttpResponseBase) -> bool:
    return (
        request.method == "GET"
        and request.path.startswith(API)
        and isinstance(response, HttpResponse)
        and response.headers.get("Content-Type", "").partition(";")[0] == "application/json"
        and len(response.content) >= LEAST_BYTES
    )
