"""The live channel: ``/ws/v1/sessions/{id}?after=cursor`` sends the record from there on, each message an EventPage."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from console.errors import DomainError, Forbidden, InvalidRequest, NotFound, Unauthenticated
from console.live.hub import follow
from console.logs import logs_bind
from console.metrics import WEBSOCKET_CLIENTS

PAGE = 200
ALLOWED_S = 5.0  # for so long a watcher is told more without being looked at again
CLOSE_BROKEN = 1011
CURSOR_DIGITS = 18
CLOSE_CODES = {InvalidRequest: 4400, Unauthenticated: 4401, Forbidden: 4403, NotFound: 4404}

logger = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):
    """One watcher. ``allow(scope, session_id)`` raises a DomainError when this client may not watch that session.

    A refusal is sent after the handshake, as a close code that a browser shows to its page: 4400, 4401, 4403 or 4404.
    ``send`` waits while the client does not take what it was sent; what is new meanwhile comes as one page.
    """

    channel_layer_alias = ""  # none for each client: the hub listens once for all who watch a session

    def __init__(self, *, allow: Callable[[dict, str], Awaitable[None]]) -> None:
        super().__init__()
        self.allow = allow
        self.sender: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        await self.accept()
        session_id = self.scope["url_route"]["kwargs"]["session_id"]
        logs_bind(session_id=session_id)
        try:
            after = _after(self.scope["query_string"])
            await self.allow(self.scope, session_id)
        except DomainError as error:
            await self.close(code=CLOSE_CODES.get(type(error), 4400), reason=error.message[:100])
            return
        self.sender = asyncio.create_task(self._send_all(session_id, after))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Clients have nothing to say here; what they say is dropped."""

    async def disconnect(self, code: int) -> None:
        if self.sender is not None:
            self.sender.cancel()
            await asyncio.wait([self.sender])

    async def _send_all(self, session_id: str, after: int) -> None:
        try:
            with WEBSOCKET_CLIENTS.track_inprogress():
                async with follow(session_id=session_id, after=after) as follower:
                    allowed_at = time.monotonic()
                    while events := await follower.next(limit=PAGE):
                        if time.monotonic() - allowed_at >= ALLOWED_S:
                            await self.allow(self.scope, session_id)
                            allowed_at = time.monotonic()
                        if not await self._sent(follower.feed.text(events)):
                            return
        except DomainError as error:  # a key was revoked, a member removed, a browser signed out
            with suppress(OSError):
                await self.close(code=CLOSE_CODES.get(type(error), CLOSE_BROKEN), reason=error.message[:100])
        except Exception:  # a client that hears nothing more must know it: it comes back with its cursor
            logger.exception("The live channel broke")
            with suppress(OSError):
                await self.close(code=CLOSE_BROKEN)

    async def _sent(self, text: str) -> bool:
        try:
            await self.send(text_data=text)
        except OSError:  # how ASGI says that the client has gone
            return False
        return True


def _after(query_string: bytes) -> int:
    given = parse_qs(query_string.decode("ascii", "replace"), keep_blank_values=True)
    after = given.pop("after", ["0"])[-1]
    if given:
        raise InvalidRequest(f"Unknown parameter: {', '.join(given)}")
    if not (after.isascii() and after.isdigit() and len(after) <= CURSOR_DIGITS):
        raise InvalidRequest("after must be a cursor: a whole number.")
    return int(after)


async def refuse(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
    """There is no such channel."""
    await receive()
    await send({"type": "websocket.close", "code": CLOSE_CODES[NotFound]})
