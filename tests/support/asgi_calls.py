"""A gateway on loopback that says what a test tells it to, and a client that sees an answer piece
by piece.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from django.conf import settings

from tinkerscript.wire.episode_key import EpisodeClaim, session_key, sign

WAIT_S = 60.0


class FakeGateway:
    """``answer`` handles every request; ``requests`` keeps what came, with its body."""

    def __init__(self) -> None:
        self.requests: list[tuple[web.Request, bytes]] = []
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = self._ok
        self.address = ""
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.address = f"127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        return await self.answer(request)

    async def _ok(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"path": request.path_qs})


class Call:
    """One request to an ASGI application, whose answer is read as it comes."""

    def __init__(
        self,
        app: Any,
        method: str,
        path: str,
        *,
        key: str | None = None,
        body: bytes = b"",
        **headers: str,
    ):
        path, _, query = path.partition("?")
        pairs = [
            (name.replace("_", "-").lower().encode(), value.encode())
            for name, value in headers.items()
        ]
        if key is not None:
            pairs.append((b"authorization", f"Bearer {key}".encode()))
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"testserver"), *pairs],
            "scheme": "http",
            "server": ("testserver", 80),
            "client": ("127.0.0.1", 1),
        }
        self.incoming: asyncio.Queue[dict] = asyncio.Queue()
        self.outgoing: asyncio.Queue[dict] = asyncio.Queue()
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.task = asyncio.create_task(app(self.scope, self.incoming.get, self.outgoing.put))

    def disconnect(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def message(self) -> dict:
        """The next thing the application sends; its exception, if it raised one."""
        getter = asyncio.create_task(self.outgoing.get())
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait({getter, self.task}, return_when=asyncio.FIRST_COMPLETED)
            if not getter.done() and self.outgoing.empty() and self.task.done():
                getter.cancel()
                self.task.result()
                raise AssertionError("the application ended without another message")
            return await getter

    async def start(self) -> tuple[int, dict[str, str]]:
        message = await self.message()
        assert message["type"] == "http.response.start"
        return message["status"], {
            name.decode().lower(): value.decode() for name, value in message["headers"]
        }

    async def body(self) -> bytes:
        body = b""
        while True:
            message = await self.message()
            body += message.get("body", b"")
            if not message.get("more_body"):
                return body

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.start()
        body = await self.body()
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait({self.task})  # it closes its files after its last message
        return status, headers, body


def episode_key(
    session_id: str,
    *,
    lives_s: float = 600,
    secret: str | None = None,
    key_id: str = "",
    episode_id: str = "ep_1",
) -> str:
    """The key of an episode, as the session's runtime would sign it."""
    claim = EpisodeClaim(session_id, episode_id, int(time.time() + lives_s), key_id)
    return sign(session_key((secret or settings.SECRET_KEY).encode(), session_id), claim)
