"""The live channel: ``/ws/v1/sessions/{id}?after=cursor&kinds=state,metric`` sends the record from there on.

Each message is an EventPage; without ``kinds`` it has every entry. One without entries comes when nothing else did for
a while: a client that hears nothing for much longer has lost its connection, whatever its network says.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from console.errors import DomainError, Forbidden, InvalidRequest, NotFound, RateLimited, Unauthenticated
from console.live.hub import EVERY_KIND, Kinds, follow
from console.live.watchers import credential_of, watchers
from console.server.logs import logs_bind
from console.server.metrics import WEBSOCKET_CLIENTS
from tinkerscript.wire.events import EventKind, EventPage

PAGE = 200
RECHECK_S = 0.75  # how often a watcher's permission is checked, with events or without: it ends within a second
PING_S = 15.0
CLOSE_BROKEN = 1011
CURSOR_DIGITS = 18
CLOSE_CODES = {InvalidRequest: 4400, Unauthenticated: 4401, Forbidden: 4403, NotFound: 4404, RateLimited: 4429}

logger = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):
    """One watcher. ``allow(scope, session_id)`` raises a DomainError when this client may not watch that session.

    A refusal is sent after the handshake, as a close code that a browser shows its page: 4400, 4401, 4403, 4404, 4429.
    ``send`` waits while the client does not take what it was sent; what is new meanwhile comes as one page.
    """

    channel_layer_alias = ""  # none for each client: the hub listens once for all who watch a session

    def __init__(self, *, allow: Callable[[Mapping[str, Any], str], Awaitable[None]]) -> None:
        super().__init__()
        self.allow = allow
        self.sender: asyncio.Task[None] | None = None
        self.credential: str | None = None  # what is counted of it, until it goes

    async def connect(self) -> None:
        await self.accept()
        session_id = self.scope["url_route"]["kwargs"]["session_id"]
        logs_bind(session_id=session_id)
        try:
            after, kinds = _asked(self.scope["query_string"])
            credential = credential_of(self.scope)
            watchers.enter(credential)
            self.credential = credential
            await self.allow(self.scope, session_id)
        except DomainError as error:
            self._leave()
            await self.close(code=CLOSE_CODES.get(type(error), 4400), reason=error.message[:100])
            return
        self.sender = asyncio.create_task(self._send_all(session_id, after, kinds))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Clients have nothing to say here; what they say is dropped."""

    async def disconnect(self, code: int) -> None:
        self._leave()
        if self.sender is not None:
            self.sender.cancel()
            await asyncio.wait([self.sender])

    def _leave(self) -> None:
        if self.credential is not None:
            watchers.leave(self.credential)
            self.credential = None

    async def _send_all(self, session_id: str, after: int, kinds: Kinds) -> None:
        try:
            with WEBSOCKET_CLIENTS.track_inprogress():
                async with follow(session_id=session_id, after=after) as follower:
                    allowed_at = sent_at = time.monotonic()
                    while True:
                        left_s = allowed_at + RECHECK_S - time.monotonic()
                        events = await follower.next(limit=PAGE, timeout_s=max(0.0, left_s))
                        if time.monotonic() - allowed_at >= RECHECK_S:
                            await self.allow(self.scope, session_id)
                            allowed_at = time.monotonic()
                        if any(event.kind in kinds for event in events):
                            text = follower.feed.text(events, kinds)
                        elif time.monotonic() - sent_at >= PING_S:
                            text = EventPage(items=[], next_cursor=follower.cursor).model_dump_json()
                        else:
                            continue
                        if not await self._sent(text):
                            return
                        sent_at = time.monotonic()
        except DomainError as error:  # a key was revoked, a member removed, a browser signed out
            with suppress(OSError):
                await self.close(code=CLOSE_CODES.get(type(error), CLOSE_BROKEN), reason=error.message[:100])
        except Exception:  # close, so that the client knows and connects again with its cursor
            logger.exception("The live channel broke")
            with suppress(OSError):
                await self.close(code=CLOSE_BROKEN)

    async def _sent(self, text: str) -> bool:
        try:
            await self.send(text_data=text)
        except OSError:  # how ASGI says that the client has gone
            return False
        return True


def _asked(query_string: bytes) -> tuple[int, Kinds]:
    given = parse_qs(query_string.decode("ascii", "replace"), keep_blank_values=True)
    after = given.pop("after", ["0"])[-1]
    kinds = given.pop("kinds", [",".join(EVERY_KIND)])[-1].split(",")
    if given:
        raise InvalidRequest(f"Unknown parameter: {', '.join(given)}")
    if not (after.isascii() and after.isdigit() and len(after) <= CURSOR_DIGITS):
        raise InvalidRequest("after must be a cursor: a whole number.")
    if unknown := set(kinds) - EVERY_KIND:
        raise InvalidRequest(f"kinds are of {', '.join(EventKind)}; not {', '.join(sorted(unknown))}.")
    return int(after), frozenset(EventKind(kind) for kind in kinds)


class NoChannel(AsyncWebsocketConsumer):
    """Refuses every handshake: there is no such channel."""

    channel_layer_alias = ""

    async def connect(self) -> None:
        await self.close(code=CLOSE_CODES[NotFound])
