"""Following the record of a session: one reader per session and process, however many watch.

    writer --(commit)--> rows --(a wake-up, else every half second)--> Feed --> Follower, Follower...

The channel layer carries wake-ups, and ``local_wakes`` where it is in the memory of each process.

Rows are the record and followers have cursors, so nothing can be lost and a client's queue costs
nothing: it is the stretch between its cursor and the feed's head. Who is slow finds a longer
stretch the next time it asks, in one page instead of many; who is slower than the feed's short
memory reads on from the table.
"""

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Collection
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import Context
from operator import attrgetter

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async

from console.live.local_wakes import wakes_heard
from console.live.selectors import event_cursor_latest, event_list
from console.live.services import channel_layer, group_name
from tinkerscript.wire.events import Event, EventKind, EventPage
from tinkerscript.wire.reading.points import is_mark

POLL_INTERVAL_S = 0.5  # for wake-ups that were lost
LAYER_RETRY_S = 5.0
CANCELLED_AGAIN_S = 1.0
RECENT_EVENTS_MAX = 1000  # entries that a feed keeps in memory for its followers
PAGE = 500  # rows per read
PAGE_CACHE_MAX = 64  # pages kept as JSON: a thousand followers are at a handful of cursors
WOKEN_AT_ONCE = 50  # followers; then other tasks of the process have their turn

logger = logging.getLogger(__name__)

Kinds = frozenset[EventKind]
EVERY_KIND: Kinds = frozenset(EventKind)

feeds: dict[str, "Feed"] = {}
_cursor = attrgetter("cursor")


class Feed:
    """What is new in one session. ``recent`` holds every entry after ``since``; ``task`` reads (set
    by ``follow``).
    """

    task: asyncio.Task[None]

    def __init__(self, session_id: str, since: int) -> None:
        self.session_id, self.since = session_id, since
        self.recent: list[Event] = []
        self.followers: set[Follower] = set()
        self._texts: dict[tuple[int, int, Kinds], str] = {}

    @property
    def head(self) -> int:
        """The cursor of the newest entry seen."""
        return self.recent[-1].cursor if self.recent else self.since

    def after(self, cursor: int, limit: int) -> list[Event]:
        """At most ``limit`` of the recent entries that follow ``cursor``, which is not before
        ``since``.
        """
        start = bisect_right(self.recent, cursor, key=_cursor)
        return self.recent[start : start + limit]

    def text(self, events: list[Event], kinds: Kinds = EVERY_KIND) -> str:
        """The page of these consecutive entries as JSON, those of other kinds left out.

        It is made once for all followers at one cursor.
        """
        span = events[0].cursor, events[-1].cursor, kinds
        if (text := self._texts.get(span)) is None:
            if len(self._texts) >= PAGE_CACHE_MAX:
                self._texts.clear()
            items = [event for event in events if event.kind in kinds]
            text = self._texts[span] = EventPage(items=items, next_cursor=span[1]).model_dump_json()
        return text

    async def run(self) -> None:
        """Read when woken or when it is time to look; end when cancelled."""
        woken = asyncio.Event()
        listener = asyncio.create_task(_listen(self.session_id, woken))
        try:
            with ExitStack() as stack:
                try:
                    stack.enter_context(wakes_heard(self.session_id, woken.set))
                except OSError:
                    logger.exception(
                        "Other processes cannot wake this one",
                        extra={"session_id": self.session_id},
                    )
                await self._read_on(woken)
        finally:
            # What the layer raises while it is cancelled takes the place of that: then the listener
            # begins anew.
            while not listener.done():
                listener.cancel()
                await asyncio.wait([listener], timeout=CANCELLED_AGAIN_S)

    async def _read_on(self, woken: asyncio.Event) -> None:
        while True:
            try:
                await self.read()
            except Exception:
                logger.exception(
                    "The record could not be read", extra={"session_id": self.session_id}
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await woken.wait()
            woken.clear()

    async def read(self) -> None:
        """Take every new row and wake the followers."""
        while events := await database_sync_to_async(event_list)(
            session_id=self.session_id, after=self.head, limit=PAGE
        ):
            self.recent.extend(events)
            if (surplus := len(self.recent) - RECENT_EVENTS_MAX) > 0:
                self.since = self.recent[surplus - 1].cursor
                del self.recent[:surplus]
            for number, follower in enumerate(list(self.followers), start=1):
                follower.news.set()
                if number % WOKEN_AT_ONCE == 0:
                    await asyncio.sleep(0)


class Follower:
    """One client's cursor in the record."""

    def __init__(self, feed: Feed, after: int) -> None:
        self.feed, self.cursor, self.news = feed, after, asyncio.Event()

    async def next(self, *, limit: int, timeout_s: float | None = None) -> list[Event]:
        """The entries after the last one given, as soon as there are any; none once the time is up.

        The time limits the wait for news, not the reading: a slow database would otherwise never be
        read to the end.
        """
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while True:
            self.news.clear()  # before looking, so that what comes while we look is not missed
            if events := await self._after_cursor(limit):
                self.cursor = events[-1].cursor
                return events
            try:
                async with asyncio.timeout_at(deadline):
                    await self.news.wait()
            except TimeoutError:
                return []

    async def _after_cursor(self, limit: int) -> list[Event]:
        if self.cursor < self.feed.since:
            return await database_sync_to_async(event_list)(
                session_id=self.feed.session_id, after=self.cursor, limit=limit
            )
        return self.feed.after(self.cursor, limit)


@asynccontextmanager
async def follow(*, session_id: str, after: int) -> AsyncIterator[Follower]:
    """Follow a session's record from the cursor ``after``. The last follower to leave ends the
    session's reader.
    """
    if session_id not in feeds:
        latest = await database_sync_to_async(event_cursor_latest)(session_id=session_id)
    feed = feeds.get(session_id)
    if feed is None:
        feed = feeds[session_id] = Feed(session_id, latest)
        # A context of its own: that of a request names a thread for database work, which ends with
        # the request.
        feed.task = asyncio.create_task(feed.run(), context=Context())
    follower = Follower(feed, after)
    feed.followers.add(follower)
    try:
        yield follower
    finally:
        feed.followers.discard(follower)
        if not feed.followers:
            del feeds[session_id]
            feed.task.cancel()
            with suppress(asyncio.CancelledError):
                await feed.task


async def event_page(
    *,
    session_id: str,
    after: int,
    limit: int,
    kinds: Collection[EventKind] = (),
    newest: bool = False,
    marks: bool = False,
    wait_s: float = 0,
) -> EventPage:
    """One page of the record; when it is empty, wait up to ``wait_s`` for the next entry (of these
    kinds, a mark).
    """
    read = sync_to_async(event_list)
    items = await read(
        session_id=session_id, after=after, limit=limit, kinds=kinds, newest=newest, marks=marks
    )
    deadline = time.monotonic() + wait_s
    if not items and wait_s > 0:
        async with follow(session_id=session_id, after=after) as follower:
            while not items and (left_s := deadline - time.monotonic()) > 0:
                events = await follower.next(limit=limit, timeout_s=left_s)
                some = [event for event in events if not kinds or event.kind in kinds]
                items = (
                    [event for event in some if is_mark(event.kind, event.data)] if marks else some
                )
                after = follower.cursor
    return EventPage(items=items, next_cursor=items[-1].cursor if items else after)


async def _listen(session_id: str, woken: asyncio.Event) -> None:
    """Turn the layer's messages, however many, into one wake-up. Without a layer the half-second
    look is left.
    """
    while True:
        try:
            await _listen_to_layer(session_id, woken)
        except Exception:
            logger.exception("The channel layer is away", extra={"session_id": session_id})
        await asyncio.sleep(LAYER_RETRY_S)


async def _listen_to_layer(session_id: str, woken: asyncio.Event) -> None:
    layer = channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group_name(session_id), channel)
    try:
        while True:
            await layer.receive(channel)
            woken.set()
    finally:
        await layer.group_discard(group_name(session_id), channel)
