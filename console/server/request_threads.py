"""Django, with a fixed number of threads that keep their database connections (CONN_MAX_AGE).

A view that waits is a coroutine and holds no thread while it does. Of any other request the
middleware and the view are one call in one thread: Django's handler for ASGI goes to a thread and
back for each middleware that is not a coroutine, and starts that thread for the request alone.
"""

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import iscoroutinefunction
from operator import attrgetter
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

# So many connections to the database has one process at most for requests to Django.
THREADS, RESERVED_THREADS = 24, 8
# Leases, episodes that are played and the process's own health do not wait for what others do: an
# object store that does not answer holds a thread for minutes.
RESERVED = re.compile(
    r"GET /healthz|POST /v1/(runtime/heartbeat|"
    r"sessions/[^/]+/(heartbeats|episodes(/[^/]+/(end|abandon|heartbeat))?))"
)
# The middleware of views that wait, and of all where no browser asks. Sign-ins:
# api/rest/authentication.py.
OF_PROGRAMS = (
    "console.server.middleware.count_requests",
    "console.server.middleware.security_headers",
    "console.server.middleware.compress_api",
)


class RequestThread(ThreadPoolExecutor):
    """One thread, as asgiref asks for it. ``requests``: whose view may still have to run in it."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="request")
        self.requests: set[int] = set()
        self._last: Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it after all that was submitted before."""
        self._last = super().submit(fn, *args, **kwargs)
        return self._last

    @property
    def load(self) -> int:
        """0 for an idle one."""
        return len(self.requests) + (self._last is not None and not self._last.done())


class Handler(ASGIHandler):
    """Django's application for ASGI, over its own threads. Without ``browsers``: for programs."""

    def __init__(self, *, browsers: bool = True) -> None:
        self._in_thread = BaseHandler()
        every = settings.MIDDLEWARE  # Django reads it while it makes a handler, and never again
        if browsers:
            self._in_thread.load_middleware()
        settings.MIDDLEWARE = list(OF_PROGRAMS)
        try:
            super().__init__()
            if not browsers:
                self._in_thread.load_middleware()
        finally:
            settings.MIDDLEWARE = every
        self._threads = [RequestThread() for _ in range(THREADS)]
        self._reserved = [RequestThread() for _ in range(RESERVED_THREADS)]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request, in the first of the least busy threads: few have a connection."""
        is_reserved = RESERVED.fullmatch(f"{scope['method']} {scope['path']}")
        thread = min(self._reserved if is_reserved else self._threads, key=attrgetter("load"))
        scope = scope | {"thread": thread}
        thread.requests.add(id(scope))
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)
        finally:
            thread.requests.discard(id(scope))

    async def get_response_async(self, request: Any) -> HttpResponseBase:
        """The response of a view that waits, or of any other. Its reader holds no thread."""
        requests = request.scope["thread"].requests
        if not _waits(request):
            response = await sync_to_async(self._in_thread.get_response)(request)
            requests.discard(id(request.scope))
            return response
        requests.discard(id(request.scope))
        response = await super().get_response_async(request)
        if isinstance(response, HttpResponse) and "Content-Length" not in response:
            response["Content-Length"] = str(len(response.content))
        return response


def _waits(request: HttpRequest) -> bool:
    """Whether its view is a coroutine. What has no view, or a Host that is none, is refused in a
    thread."""
    try:
        request.get_host()
        return iscoroutinefunction(resolve(request.path_info).func)
    except (DisallowedHost, Resolver404):
        return False
