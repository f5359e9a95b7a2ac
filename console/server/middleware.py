"""Django's middleware of this server, from the outermost on: counts, headers, compression, files.

``count_requests`` counts the status that the client gets, by route.

``security_headers`` are on every response, and make the browser refuse foreign scripts, frames,
devices, and copies of API data. The console shows what models wrote, which may be anything: a
script that got into a page must not run. Styles may stand in a page, because the dialogs' scroll
lock and the toasts' library (sonner) each put one there; they can neither run nor send anything.

``compress_api`` compresses JSON of the API for clients that can read it so: columns and lists
shrink tenfold. Only responses to GET. What is made anew and shown once, a key or a link, is a
response to POST: a compressed secret beside text that somebody else chose tells its letters by its
length (BREACH). Django adds a random length as well.

``PageFiles`` are those of the console's pages and of Django's own, as WhiteNoise finds them.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.decorators import sync_and_async_middleware
from whitenoise.middleware import WhiteNoiseMiddleware

from console.server.metrics import REQUEST_S, REQUESTS

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
API = "/v1/"
LEAST_BYTES = 1024  # below it a response is one packet, compressed or not
# about a millisecond of work; more is done beside the loop that serves the others
MOST_AT_ONCE_BYTES = 64 << 10
Respond = Callable[[HttpRequest, HttpResponseBase, float], HttpResponseBase]


def _policy(styles: str, images: str) -> str:
    """A page loads nothing from elsewhere, runs nothing inline and stands in no frame."""
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src {images}; font-src "
        "'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


CONTENT_SECURITY_POLICY = _policy("'self' 'unsafe-inline'", "'self' data: blob:")
# For our pages that need no style inside a page: the REST reference and the pages of endpoints.
STRICT_CONTENT_SECURITY_POLICY = _policy("'self'", "'self' data:")
PERMISSIONS_POLICY = (
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)
# A browser that has once seen this server over TLS asks for it so for a year.
HSTS = "max-age=31536000"
# responses for one person: no proxy or cache may keep them
PRIVATE = ("/v1/", "/_allauth/", "/api/", "/sign-in/")


@sync_and_async_middleware
def count_requests(get_response: Callable) -> Callable:
    """Middleware. A response is counted by the pattern of its URL, never by the URL: there is no
    bound on the number of those.
    """
    return _responding(get_response, _count)


def _count(request: HttpRequest, response: HttpResponseBase, began: float) -> HttpResponseBase:
    route = request.resolver_match.route if request.resolver_match else "none"
    method = request.method if request.method in METHODS else "other"
    REQUESTS.labels(route, method, response.status_code).inc()
    REQUEST_S.labels(route).observe(time.monotonic() - began)
    return response


def _responding(get_response: Callable, respond: Respond) -> Callable:
    """``get_response``, whose responses ``respond`` is given, with the time at which each began."""
    if iscoroutinefunction(get_response):

        async def responding_async(request: HttpRequest) -> HttpResponseBase:
            began = time.monotonic()
            return respond(request, await get_response(request), began)

        return responding_async

    def responding(request: HttpRequest) -> HttpResponseBase:
        began = time.monotonic()
        return respond(request, get_response(request), began)

    return responding


@sync_and_async_middleware
def security_headers(get_response: Callable) -> Callable:
    """Middleware. A view that sets one of these headers itself keeps its own."""
    return _responding(get_response, _headers_set)


def _headers_set(
    request: HttpRequest, response: HttpResponseBase, _began: float
) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("X-Frame-Options", "DENY")
    if request.path.startswith(PRIVATE):
        response.headers.setdefault("Cache-Control", "no-store")
    if settings.PUBLIC_URL.startswith("https://"):
        response.headers.setdefault("Strict-Transport-Security", HSTS)
    return response


def strict_policy_set(page: HttpResponseBase) -> None:
    """Give the page the stricter of the two policies."""
    page.headers["Content-Security-Policy"] = STRICT_CONTENT_SECURITY_POLICY


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


class PageFiles(WhiteNoiseMiddleware):
    """Reads a file within its request's thread: as a stream Django would read it whole in another
    thread, and print a warning.
    """

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        with closing(WhiteNoiseMiddleware.serve(static_file, request)) as found:
            answer = HttpResponse(b"".join(found), status=found.status_code)
            answer.headers = found.headers
            return answer
