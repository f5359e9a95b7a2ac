"""Middleware that counts Django's responses by route and status."""

import time
from collections.abc import Callable
from inspect import iscoroutinefunction

from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from console.server.metrics import request_count


@sync_and_async_middleware
def count_requests(get_response: Callable) -> Callable:
    """The outermost middleware, so that it counts the status that the client gets."""
    if iscoroutinefunction(get_response):

        async def counted_async(request: HttpRequest) -> HttpResponseBase:
            began = time.monotonic()
            return _count(request, await get_response(request), began)

        return counted_async

    def counted(request: HttpRequest) -> HttpResponseBase:
        began = time.monotonic()
        return _count(request, get_response(request), began)

    return counted


def _count(request: HttpRequest, response: HttpResponseBase, began: float) -> HttpResponseBase:
    match = request.resolver_match
    request_count(
        route=match.route if match else "none",
        method=request.method or "",
        status=response.status_code,
        seconds=time.monotonic() - began,
    )
    return response
