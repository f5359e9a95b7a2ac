"""The live channels: pages of what is new from a cursor on, for as long as the client may have
them.

``/ws/v1/sessions/{id}?after=cursor&kinds=state,metric`` sends the record of a session from there
on. Each message is an EventPage; without ``kinds`` it has every entry. What else can be watched is
a function like ``record_pages`` below.

A page without anything comes when nothing else did for a while: a client that hears nothing for
much longer has lost its connection, whatever its network says.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from console.errors import (
    DomainError,
    Forbidden,
    InvalidRequest,
    NotFound,
    RateLimited,
    Unauthenticated,
)
from console.live.hub import EVERY_KIND, Follower, Kinds, follow
from console.server.logs import logs_bind
from console.server.metrics import WEBSOCKET_CLIENTS
from console.server.tally import Tally
from tinkerscript.wire.events import EventKind, EventPage

PAGE = 200
# how often a watcher's permission is checked, with events or without: it ends within a second
RECHECK_S = 0.75
PING_S = 15.0
MAX_WATCHERS, MAX_PER_CREDENTIAL = 4_096, 100  # clients at once
CLOSE_BROKEN = 1011
CURSOR_DIGITS = 18
CLOSE_CODES = {
    InvalidRequest: 4400,
    Unauthenticated: 4401,
    Forbidden: 4403,
    NotFound: 4404,
    RateLimited: 4429,
}

logger = logging.getLogger(__name__)


class Pages(Protocol):
    """What is new of one thing, from one client's cursor on."""

    async def next(self, *, timeout_s: float) -> str | None:
        """The next page as JSON, as soon as there is one; None once the time is up, or where it has
        nothing to tell.
        """
        ...

    def empty(self) -> str:
        """A page that has the cursor alone."""
        ...


class RecordPages:
    """The entries of a session's record that are of these kinds."""

    def __init__(self, follower: Follower, kinds: Kinds) -> None:
        self._follower, self._kinds = follower, kinds

    async def next(self, *, timeout_s: float) -> str | None:
        """As ``Pages``; the cursor passes entries of other kinds."""
        events = await self._follower.next(limit=PAGE, timeout_s=timeout_s)
        if not any(event.kind in self._kinds for event in events):
            return None
        return self._follower.feed.text(events, self._kinds)

    def empty(self) -> str:
        """As ``Pages``."""
        return EventPage(items=[], next_cursor=self._follower.cursor).model_dump_json()


def record_pages(session_id: str, given: dict[str, str]) -> AbstractAsyncContextManager[Pages]:
    """The pages of a session's record that the parameters in ``given`` ask for. Raises
    InvalidRequest.
    """
    after = cursor_take(given)
    kinds = given.pop("kinds", ",".join(EVERY_KIND)).split(",")
    parameters_end(given)
    if unknown := set(kinds) - EVERY_KIND:
        raise InvalidRequest(
            f"kinds are of {', '.join(EventKind)}; not {', '.join(sorted(unknown))}."
        )
    return _record_pages(session_id, after, frozenset(EventKind(kind) for kind in kinds))


@asynccontextmanager
async def _record_pages(session_id: str, after: int, kinds: Kinds) -> AsyncIterator[Pages]:
    async with follow(session_id=session_id, after=after) as follower:
        yield RecordPages(follower, kinds)


def cursor_take(given: dict[str, str]) -> int:
    """The parameter ``after``, which is taken out. Raises InvalidRequest."""
    after = given.pop("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) <= CURSOR_DIGITS):
        raise InvalidRequest("after must be a cursor: a whole number.")
    return int(after)


def parameters_end(given: Mapping[str, str]) -> None:
    """Raises InvalidRequest for what nobody has taken out."""
    if given:
        raise InvalidRequest(f"Unknown parameter: {', '.join(given)}")


class Watchers:
    """How many clients watch: per credential, and in all of this web process.

    All of it runs on the event loop, in memory: no lock is needed, and nothing waits.
    """

    def __init__(self) -> None:
        self.by_credential = Tally()

    def enter(self, credential: str) -> None:
        """Count one more. Raises RateLimited, and counts nothing, when there are too many."""
        of_credential, of_all = self.by_credential.count(credential, 1)
        if of_credential <= MAX_PER_CREDENTIAL and of_all <= MAX_WATCHERS:
            return
        self.leave(credential)
        if of_credential > MAX_PER_CREDENTIAL:
            raise RateLimited(
                f"{MAX_PER_CREDENTIAL} connections of this key or sign-in watch already."
            )
        raise RateLimited("The server has as many watchers as it takes. Try again in a moment.")

    def leave(self, credential: str) -> None:
        """Count one less."""
        self.by_credential.count(credential, -1)


def credential_of(scope: Mapping[str, Any]) -> str:
    """What stands for the key or sign-in of a handshake, without being it."""
    headers = dict(scope["headers"])
    return hashlib.sha256(headers.get(b"authorization") or headers.get(b"cookie", b"")).hexdigest()


watchers = Watchers()


class LiveConsumer(AsyncWebsocketConsumer):
    """One watcher. ``allow(scope, id)`` raises a DomainError when this client may not watch what
    has that id; ``watch(id, parameters)`` is what it then gets, and raises InvalidRequest for
    parameters that it does not know.

    A refusal is sent after the handshake, as a close code that a browser shows its page: 4400,
    4401, 4403, 4404, 4429. ``send`` waits while the client does not take what it was sent; what is
    new meanwhile comes as one page.
    """

    # none for each client: the hub listens once for all who watch a session
    channel_layer_alias = ""

    def __init__(
        self,
        *,
        allow: Callable[[Mapping[str, Any], str], Awaitable[None]],
        watch: Callable[[str, dict[str, str]], AbstractAsyncContextManager[Pages]] = record_pages,
    ) -> None:
        super().__init__()
        self.allow, self.watch = allow, watch
        self.sender: asyncio.Task[None] | None = None
        self.credential: str | None = None  # what is counted of it, until it goes

    async def connect(self) -> None:
        await self.accept()
        logs_bind(**self.scope["url_route"]["kwargs"])
        (watched,) = self.scope["url_route"]["kwargs"].values()
        given = parse_qs(
            self.scope["query_string"].decode("ascii", "replace"), keep_blank_values=True
        )
        try:
            pages = self.watch(watched, {name: values[-1] for name, values in given.items()})
            credential = credential_of(self.scope)
            watchers.enter(credential)
            self.credential = credential
            await self.allow(self.scope, watched)
        except DomainError as error:
            self._leave()
            await self.close(code=CLOSE_CODES.get(type(error), 4400), reason=_reason(error))
            return
        self.sender = asyncio.create_task(self._send_all(watched, pages))

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

    async def _send_all(self, watched: str, opening: AbstractAsyncContextManager[Pages]) -> None:
        try:
            with WEBSOCKET_CLIENTS.track_inprogress():
                async with opening as pages:
                    allowed_at = sent_at = time.monotonic()
                    while True:
                        left_s = allowed_at + RECHECK_S - time.monotonic()
                        text = await pages.next(timeout_s=max(0.0, left_s))
                        if time.monotonic() - allowed_at >= RECHECK_S:
                            await self.allow(self.scope, watched)
                            allowed_at = time.monotonic()
                        if text is None and time.monotonic() - sent_at < PING_S:
                            continue
                        if not await self._sent(pages.empty() if text is None else text):
                            return
                        sent_at = time.monotonic()
        except DomainError as error:  # a key was revoked, a member removed, a browser signed out
            with suppress(OSError):
                await self.close(
                    code=CLOSE_CODES.get(type(error), CLOSE_BROKEN), reason=_reason(error)
                )
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


def _reason(error: DomainError) -> str:
    """The beginning of its message: a close frame has room for 123 bytes."""
    return error.message.encode()[:100].decode(errors="ignore")


class NoChannel(AsyncWebsocketConsumer):
    """Refuses every handshake: there is no such channel."""

    channel_layer_alias = ""

    async def connect(self) -> None:
        await self.close(code=CLOSE_CODES[NotFound])
