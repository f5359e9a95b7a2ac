"""The gateway as one ASGI app, and how it is served inside the runtime's event loop."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, RuntimeFault, StoreUnavailable
from gpu_runtime.gateway.completion_handler import CompletionHandler, ModelNames
from gpu_runtime.gateway.dialects import dialect_routes
from gpu_runtime.gateway.http import episode_key, error_response, sentences
from gpu_runtime.gateway.internal_routes import InternalRoutes
from gpu_runtime.gateway.openai.model_routes import CallRoutes, ModelRoutes
from gpu_runtime.generation.calls import Calls
from gpu_runtime.interfaces import TokenSource
from gpu_runtime.refusals import (
    BadKey,
    CallFailed,
    EpisodeClosed,
    GatewayError,
    NotAdmitted,
    NotFound,
    NoWebSocket,
    WrongMethod,
)
from gpu_runtime.rendering.renderer import Renderer
from tinkerscript.processes.bounded_http import BoundedHttp
from tinkerscript.processes.tracing import span
from tinkerscript.wire.dialects.table import dialect_at
from tinkerscript.wire.runtime import Assignment

START_S = 30.0
GRACE_S = 5.0  # for responses under way when the gateway ends
# Longer than a client keeps an idle connection (aiohttp 15 s): no request meets one that closes.
KEEP_ALIVE_S = 30
log = logging.getLogger(__name__)


def create_app(
    episodes: Episodes,
    engine: TokenSource,
    renderer: Renderer,
    assignment: Assignment,
    *,
    on_fault: Callable[[RuntimeFault], None],
    erase: Callable[[str], Awaitable[None]],
) -> Starlette:
    """The app. ``on_fault`` is called when a call finds the engine dead; ``erase`` takes an
    episode's id.
    """
    calls = Calls(episodes.recorder, engine, renderer, assignment.config, on_fault=on_fault)
    names = ModelNames(assignment)
    handler = CompletionHandler(
        lambda request: episodes.authenticate(episode_key(request)),
        calls,
        names,
        policy_version=lambda: episodes.batches.policy_version,
    )
    routes = [
        *dialect_routes(handler),
        *ModelRoutes(handler, names.listed).routes(),
        *CallRoutes(handler, episodes).routes(),
        *InternalRoutes(episodes, renderer, assignment, erase).routes(),
    ]
    return app_of(routes, on_refusal=partial(_count, episodes))


OnRefusal = Callable[[Request, GatewayError], None]


def app_of(
    routes: list[Route], *, on_refusal: OnRefusal = lambda request, error: None
) -> Starlette:
    """An app of these routes and ``/healthz``, whose errors have the bodies of their dialects.

    ``on_refusal`` is called before each of them is answered.
    """
    errors = Errors(on_refusal)
    # Claude Code asks for the root of its base URL, to have a connection.
    routes = [*routes, Route("/healthz", _health), Route("/", _health, methods=["GET"])]
    middleware = [Middleware(Traced), Middleware(NoWebSockets, errors=errors)]
    app = Starlette(routes=routes, exception_handlers=errors.handlers(), middleware=middleware)
    # A redirect would lead past the server's own path, and without the key.
    app.router.redirect_slashes = False
    return app


class NoWebSockets:
    """Refuses every upgrade to a WebSocket, on any path, in the path's dialect."""

    def __init__(self, app: ASGIApp, errors: "Errors") -> None:
        self._app, self._errors = app, errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self._app
        if (
            scope["type"] == "http"
            and Headers(scope=scope).get("upgrade", "").lower() == "websocket"
        ):
            error = NoWebSocket(f"there is no WebSocket at {scope['path']}")
            app = await self._errors.refuse(Request(scope, receive), error)
        await app(scope, receive, send)


class Traced:
    """Each request but those for ``/healthz`` as a span of the trace that its headers name, where
    traces are kept.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        with span(
            "gateway", lambda: Headers(scope=scope), method=scope["method"], path=scope["path"]
        ):
            await self._app(scope, receive, send)


@contextlib.asynccontextmanager
async def serve(
    app: Starlette, *, host: str = "127.0.0.1", port: int = 0, grace_s: float = GRACE_S
) -> AsyncIterator[str]:
    """Serve ``app`` in the running event loop; gives "host:port", with a free port by default.

    Leaving it stops it: responses under way have ``grace_s`` seconds, then their connections are
    cut. Raises OSError when the address cannot be had, TimeoutError when the server does not come
    up.
    """
    listener = listen(host, port)
    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        ws="none",  # an upgrade is a request like others: it is refused in its dialect
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2 * grace_s,  # type: ignore[arg-type]  # waited for by asyncio: any number will do
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        async with asyncio.timeout(START_S):
            while not server.started:
                if task.done():
                    await task
                await asyncio.sleep(0.005)
        yield "{}:{}".format(*listener.getsockname()[:2])
    finally:
        server.should_exit = True
        await asyncio.wait({task}, timeout=grace_s)
        server.hang_up()
        await asyncio.gather(task, return_exceptions=True)
        listener.close()


class _Server(uvicorn.Server):
    """Leaves signals alone: the runtime handles them, and ends this server in its turn."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def hang_up(self) -> None:
        """Cut every connection. Its client sends the request again, to the next runtime; uvicorn
        would return 500.
        """
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    # The protocol is named because asyncio turns Nagle's algorithm off only on sockets that name
    # it; with it on, each answer waits 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _count(episodes: Episodes, request: Request, error: GatewayError) -> None:
    """A refused call stands with its episode, whatever its dialect; what passes by itself is sent
    again, and after the refusal of a WebSocket clients go on over HTTP.
    """
    if dialect_at(request.url.path) is None or error.status in (
        CallFailed.status,
        NoWebSocket.status,
    ):
        return
    with contextlib.suppress(BadKey, EpisodeClosed):  # of no episode that is open
        path = f"{request.method} {request.url.path.removeprefix('/v1')}"
        episode = episodes.authenticate(episode_key(request))
        episode.refused.add(
            at=time.time(), status=error.status, path=path, message=sentences(request, error)
        )


class Errors:
    """What answers for each kind of error, after ``on_refusal`` was called."""

    def __init__(self, on_refusal: OnRefusal) -> None:
        self._on_refusal = on_refusal

    def handlers(self) -> dict[Any, Callable[[Request, Exception], Coroutine[Any, Any, Response]]]:
        """Starlette's ``exception_handlers``."""
        return {
            GatewayError: self.refuse,
            HTTPException: self._no_route,
            ClientDisconnect: self._client_gone,
            StoreUnavailable: self._store_away,
            ControlPlaneLost: self._store_away,
            ControlPlaneRefused: self._store_away,
            Exception: self._crash,
        }

    async def refuse(self, request: Request, error: Exception) -> Response:
        """The response to a request that is refused with ``error``, in the dialect of its path."""
        assert isinstance(error, GatewayError), "registered for this class alone"
        self._on_refusal(request, error)
        return error_response(request, error)

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "registered for this class alone"
        refusal = WrongMethod if error.status_code == 405 else NotFound
        hint = (
            "A client's base_url ends in /openai/v1, and the client adds the rest of the path "
            "itself."
        )
        return await self.refuse(
            request, refusal(f"{request.method} {request.url.path}: {error.detail}.", hint=hint)
        )

    async def _client_gone(self, _: Request, error: Exception) -> Response:
        return Response(status_code=499)

    async def _store_away(self, request: Request, error: Exception) -> Response:
        return await self.refuse(
            request,
            NotAdmitted(f"what the object store has of this session cannot be read now: {error}"),
        )

    async def _crash(self, request: Request, error: Exception) -> Response:
        log.error("A request failed.", exc_info=error)
        return await self.refuse(request, GatewayError("the request failed inside the service"))
