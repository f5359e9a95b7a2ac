"""Django for requests that carry a key or a lease: without what only a browser needs.

Sign-ins by cookie, forms, messages, accounts and files of pages are each a middleware, and each of Django's own goes to
a thread and back, twice a request: 1.7 ms of CPU in all, a quarter of a heartbeat and of a begin of an episode. A
request without a cookie is nobody's to any of them. What they put on every response is put on these here.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

MIDDLEWARE = (
    "console.server.request_metrics.count_requests",
    "console.server.security_headers.security_headers",
    "console.server.compression.compress_api",
    "console.plain_requests.plain_responses",
    "console.plain_requests.host_check",
)
API = "/v1/"


def plain_application() -> ASGIHandler:
    """Django with these middlewares alone. It reads its setting when it is made, and never again."""
    django.setup(set_prefix=False)
    whole = settings.MIDDLEWARE
    settings.MIDDLEWARE = list(MIDDLEWARE)
    try:
        return ASGIHandler()
    finally:
        settings.MIDDLEWARE = whole


def is_plain(scope: dict[str, Any]) -> bool:
    """Whether a request is a program's: to the API, with a key, without a cookie, and not to show a page."""
    headers = dict(scope["headers"])
    return (
        scope["path"].startswith(API)
        and b"authorization" in headers
        and b"cookie" not in headers
        and b"text/html" not in headers.get(b"accept", b"")
    )


@sync_and_async_middleware
def plain_responses(get_response: Callable) -> Callable:
    """Middleware: the headers that Django's own middlewares set."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            return plain_headers_set(await get_response(request))

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        return plain_headers_set(get_response(request))

    return respond


@sync_and_async_middleware
def host_check(get_response: Callable) -> Callable:
    """Middleware: a Host that is none is refused (400)."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            request.get_host()
            return await get_response(request)

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        request.get_host()
        return get_response(request)

    return respond


def plain_headers_set(response: HttpResponseBase) -> HttpResponseBase:
    """Add them; the response."""
    if isinstance(response, HttpResponse) and "Content-Length" not in response:
        response.headers["Content-Length"] = str(len(response.content))
    response.headers.setdefault("X-Frame-Options", settings.X_FRAME_OPTIONS)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", settings.SECURE_REFERRER_POLICY)
    response.headers.setdefault("Cross-Origin-Opener-Policy", settings.SECURE_CROSS_ORIGIN_OPENER_POLICY)
    return response
