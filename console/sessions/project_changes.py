"""What moves in the sessions of a project, for its live channel: state, phase, step, reward, place
in the queue.

    rows --(every second)--> ProjectFeed --> ProjectPages, ProjectPages...

One reader per project and process, however many watch. A row that was written anew with nothing in
it that is shown, as by most heartbeats, is no change. What one client has not been sent yet is at
most one change of each session.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from datetime import UTC, datetime

from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.db.models import QuerySet

from console.live.consumer import Pages, cursor_take, parameters_end
from console.sessions.limits.queue import queue_positions
from console.sessions.models import Session
from tinkerscript.wire.sessions import Accounting, SessionChange, SessionChanges, SessionState

POLL_INTERVAL_S = 1.0
# a row may be seen so long after the time that is written in it, which is before its commit
OVERLAP_S = 10.0
MAX_TOLD = 500  # changes in one message; what is left comes in the next
MAX_MISSED = 500  # of a client that was away: the list is read faster than more of them
MAX_KNOWN = 10_000
COLUMNS = ("id", "state", "phase", "policy_version", "reward_mean", "accounting")
MICROSECONDS = 1_000_000

logger = logging.getLogger(__name__)
feeds: dict[str, "ProjectFeed"] = {}


def project_pages(project_id: str, given: dict[str, str]) -> AbstractAsyncContextManager[Pages]:
    """The changes after the cursor ``after``; without one from now on. Raises InvalidRequest."""
    after = cursor_take(given)
    parameters_end(given)
    return _project_pages(project_id, after)


@asynccontextmanager
async def _project_pages(project_id: str, after: int) -> AsyncIterator[Pages]:
    feed = feeds.get(project_id)
    if feed is None:
        feed = feeds[project_id] = ProjectFeed(project_id)
        # A context of its own: that of a request names a thread for database work, which ends with
        # the request.
        feed.task = asyncio.create_task(feed.run(), context=Context())
    pages = ProjectPages(feed)
    feed.watched_by.add(pages)
    try:
        if after:
            missed = await database_sync_to_async(changes_list)(
                project_id=project_id, after=after, limit=MAX_MISSED + 1, with_queued=True
            )
            pages.missed(missed, after)
        yield pages
    finally:
        feed.watched_by.discard(pages)
        if not feed.watched_by:
            del feeds[project_id]
            feed.task.cancel()
            await asyncio.wait([feed.task])


class ProjectFeed:
    """The reader. ``known`` has what it last told of a session; ``task`` runs it (set by who makes
    it).
    """

    task: asyncio.Task[None]

    def __init__(self, project_id: str) -> None:
        self.project_id, self.head = project_id, _now()
        self.known: dict[str, SessionChange] = {}
        self._knows_queue = False
        self.watched_by: set[ProjectPages] = set()

    async def run(self) -> None:
        """Read every second; end when cancelled."""
        while True:
            try:
                await self.read()
            except DatabaseError:
                logger.exception(
                    "The sessions of a project could not be read",
                    extra={"project_id": self.project_id},
                )
            await asyncio.sleep(POLL_INTERVAL_S)

    async def read(self) -> None:
        """Tell all who watch what is not as it was."""
        begun = _now()
        if len(self.known) > MAX_KNOWN:
            self.known.clear()
            self._knows_queue = False
        changes = await database_sync_to_async(changes_list)(
            project_id=self.project_id, after=self.head, with_queued=not self._knows_queue
        )
        self._knows_queue = True
        moved = await database_sync_to_async(places_moved)(
            {**self.known, **_by_id(changes)}.values()
        )
        changes = list((_by_id(changes) | _by_id(moved)).values())
        news = [change for change in changes if self.known.get(change.id) != change]
        self.known |= _by_id(changes)
        self.head = begun
        for pages in self.watched_by:
            pages.told(news)


class ProjectPages:
    """What one client has not been sent yet, by session. The first page is sent at once: it has the
    cursor.
    """

    def __init__(self, feed: ProjectFeed) -> None:
        self._feed, self._cursor = feed, feed.head
        self._waiting: dict[str, SessionChange] = {}
        self._is_cut = False
        self._news = asyncio.Event()
        self._news.set()

    def missed(self, changes: list[SessionChange], after: int) -> None:
        """What changed after the cursor ``after``, before it watched; what the feed has told since
        is newer.
        """
        self._is_cut = len(changes) > MAX_MISSED
        if not self._is_cut:
            self._waiting, self._cursor = _by_id(changes) | self._waiting, min(after, self._cursor)

    def told(self, news: list[SessionChange]) -> None:
        """Changes of this moment."""
        if news:
            self._waiting |= _by_id(news)
            self._news.set()

    async def next(self, *, timeout_s: float) -> str | None:
        """As ``Pages``. Raises what ended the reader: the client connects again, to another one."""
        if self._feed.task.done():
            self._feed.task.result()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        if not self._news.is_set():
            return None
        self._news.clear()
        items = [self._waiting.pop(session_id) for session_id in list(self._waiting)[:MAX_TOLD]]
        if self._waiting:
            self._news.set()  # the cursor stays: who connects again with it gets what is left
        is_cut, self._is_cut = self._is_cut, False
        return self._page(items, is_cut=is_cut)

    def empty(self) -> str:
        """As ``Pages``."""
        return self._page([])

    def _page(self, items: list[SessionChange], *, is_cut: bool = False) -> str:
        if not self._waiting:
            self._cursor = self._feed.head
        return SessionChanges(
            items=items, next_cursor=self._cursor, is_cut=is_cut
        ).model_dump_json()


def changes_list(
    *, project_id: str, after: int, limit: int | None = None, with_queued: bool = False
) -> list[SessionChange]:
    """The sessions that may have moved since ``after`` (microseconds since 1970), all or at most
    ``limit``.

    A place in the queue moves without its row: ``with_queued`` has every queued session too. The
    caller has checked that the project is the reader's.
    """
    since = datetime.fromtimestamp(max(0.0, min(after, _now()) / MICROSECONDS - OVERLAP_S), UTC)
    rows = Session.objects.filter(project_id=project_id)
    found = _read(rows.filter(updated_at__gt=since), limit)
    if with_queued and (limit is None or len(found) < limit):
        found |= _read(rows.filter(state=SessionState.QUEUED, updated_at__lte=since), limit)
    return places_moved(list(found.values())[:limit], all_of_them=True)


def places_moved(
    changes: Iterable[SessionChange], *, all_of_them: bool = False
) -> list[SessionChange]:
    """Those among the changes whose place in the queue is another now, with it; or
    ``all_of_them``.
    """
    changes = list(changes)
    queued = [change.id for change in changes if change.state is SessionState.QUEUED]
    places = queue_positions(queued) if queued else {}
    news = [
        change.model_copy(update={"queue_position": places.get(change.id)})
        if change.state is SessionState.QUEUED
        else change
        for change in changes
    ]
    return [new for new, old in zip(news, changes, strict=True) if all_of_them or new != old]


def _read(rows: QuerySet[Session], limit: int | None) -> dict[str, SessionChange]:
    return {
        row.id: SessionChange(
            id=row.id,
            state=SessionState(row.state),
            phase=row.phase,
            queue_position=None,
            policy_version=row.policy_version,
            reward_mean=row.reward_mean,
            accounting=Accounting.model_validate(row.accounting),
        )
        for row in rows.order_by("-updated_at").only(*COLUMNS)[:limit]
    }


def _by_id(changes: Iterable[SessionChange]) -> dict[str, SessionChange]:
    return {change.id: change for change in changes}


def _now() -> int:
    return int(time.time() * MICROSECONDS)
