"""The queue for those who ask where they are, every second for many sessions, and for who starts what is next.

A short queue is read for every question. Of a long one each process keeps who stands where (``standing.py``) and reads
which sessions have moved since, for those who ask every two seconds, for a start each time: what that costs depends on
how many did, not on how many wait. Seldom it is read whole, beside those who ask: a project that was removed and its
sessions leave no move behind.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from django.db import DatabaseError, connections
from django.db.models import Max, QuerySet

from console.live.models import EventRecord
from console.sessions.limits.standing import Running, Standing
from console.sessions.limits.turns import Owner, Waiting
from console.sessions.models import Session
from console.sessions.transitions import WITH_RUNTIME
from console.users.models import Project, User
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState

SHORT = 500  # a queue of so many is read for every question, in some milliseconds
KEPT_S = 2.0  # a longer one is asked for its moves so often
OVERLAP_S = 10.0  # a move may be seen so long after its number was given: they are read again for this time
STALE_S = 30.0  # nobody asked for so long: then it is read whole before it is shown
WHOLE_S = 300.0  # and so often beside those who ask
MOST_MOVES = 2_000  # more than these are not read one by one
COLUMNS = ("state_since", "id", "project_id", "priority", "restarts", "devices", "person_id")
log = logging.getLogger(__name__)


def waiting_rows(rows: QuerySet[Session]) -> Iterator[Waiting]:
    """What the order depends on, of those of these sessions that are queued."""
    queued = rows.filter(state=SessionState.QUEUED).order_by()
    for since, session_id, *row in queued.values_list(*COLUMNS).iterator(2000):
        yield Waiting((int(since.timestamp() * 1_000_000), session_id), session_id, *row)


def project_limits() -> dict[str, int]:
    """How many devices each project with a quota may use."""
    quotas = Project.objects.filter(device_quota__isnull=False).values_list("id", "device_quota")
    return {project_id: quota for project_id, quota in quotas if quota is not None}


def slots_freed(rows: QuerySet[Session]) -> dict[Owner, int]:
    """When the last runtime that is over ended, of each person of these sessions; microseconds since 1970."""
    ended, rows = {"slot_freed_at__isnull": False}, rows.order_by()
    people = User.objects.filter(id__in=rows.values("person_id"), **ended)
    projects = Project.objects.filter(id__in=rows.filter(person_id=None).values("project_id"), **ended)
    found: list[tuple[Owner, datetime | None]] = list(people.values_list("id", "slot_freed_at"))
    found += projects.values_list("id", "slot_freed_at")
    return {owner: int(at.timestamp() * 1_000_000) for owner, at in found if at is not None}


def standing_read() -> Standing:
    """The whole queue as it is now."""
    standing, rows = Standing(limits=project_limits()), Session.objects.all()
    freed = slots_freed(rows.filter(state=SessionState.QUEUED))
    _take(standing, waiting_rows(rows), _running_rows(rows), freed)
    standing.settle()
    return standing


def _running_rows(rows: QuerySet[Session]) -> Iterator[tuple[str, Running]]:
    running = rows.filter(state__in=WITH_RUNTIME).order_by()
    for session_id, project_id, person, devices in running.values_list("id", "project_id", "person_id", "devices"):
        yield session_id, Running(project_id, project_id if person is None else person, max(1, devices or 1))


def _take(
    standing: Standing,
    waiting: Iterable[Waiting],
    running: Iterable[tuple[str, Running]],
    freed: Mapping[Owner, int],
) -> None:
    for entry in waiting:
        standing.put(entry)
    for session_id, what in running:
        standing.start(session_id, what)
    for owner, at in freed.items():
        standing.free(owner, at)


class ShownQueue:
    """Of one process. ``now`` gives it to one thread at a time."""

    def __init__(self) -> None:
        self._standing: Standing | None = None
        self._lock = threading.Lock()  # over what the standing holds
        self._renewing = threading.Lock()
        self._read_at = self._whole_at = float("-inf")
        self._heads: deque[tuple[float, int]] = deque()  # the last move at a moment, for OVERLAP_S
        self._taken: dict[int, str] = {}  # the moves of this time that were taken, and whose they are

    @contextmanager
    def now(self, *, exact: bool = False) -> Iterator[Standing]:
        """A short queue as it is now, a long one as it was some seconds ago, or with ``exact`` with every move."""
        if self._is_short():
            yield standing_read()
            return
        late_s = time.monotonic() - self._read_at
        if self._standing is None or late_s > STALE_S:
            with self._renewing:
                if self._standing is None or time.monotonic() - self._read_at > STALE_S:
                    self._read_whole()
        elif (exact or late_s > KEPT_S) and self._renewing.acquire(blocking=exact):
            self._renew(exact=exact)
        assert self._standing is not None, "it was read above"
        with self._lock:
            yield self._standing

    def _renew(self, *, exact: bool) -> None:
        """Take what has moved. Where it is time, have all be read whole in a thread that ends the renewing."""
        try:
            is_taken = self._read_moves()
            if exact and not is_taken:
                self._read_whole()
        except BaseException:
            self._renewing.release()
            raise
        if (exact or is_taken) and time.monotonic() - self._whole_at < WHOLE_S:
            self._renewing.release()
        else:
            threading.Thread(target=self._read_whole_beside, name="queue-standing", daemon=True).start()

    def _read_moves(self) -> bool:
        """False, with nothing taken, where there were too many."""
        at = time.monotonic()
        while len(self._heads) > 1 and self._heads[1][0] <= at - OVERLAP_S:
            self._heads.popleft()
        moves = EventRecord.objects.filter(kind=EventKind.STATE, id__gt=self._heads[0][1]).order_by("id")
        found = dict(moves.values_list("id", "session_id")[: MOST_MOVES + len(self._taken) + 1])
        new = found.keys() - self._taken.keys()
        if len(new) > MOST_MOVES:
            return False
        moved = {found[number] for number in new}
        rows = Session.objects.filter(id__in=moved)
        waiting, running, limits = list(waiting_rows(rows)), list(_running_rows(rows)), project_limits()
        freed = slots_freed(rows)
        with self._lock:
            assert self._standing is not None, "moves are read after the whole"
            for session_id in moved - {entry.session_id for entry in waiting} - dict(running).keys():
                self._standing.remove(session_id)
            _take(self._standing, waiting, running, freed)
            self._standing.limit_all(limits)
            self._standing.settle()
        self._taken = found
        self._heads.append((at, max([self._heads[-1][1], *found])))
        self._read_at = time.monotonic()
        return True

    def _read_whole(self) -> None:
        at = time.monotonic()
        head = EventRecord.objects.aggregate(last=Max("id"))["last"] or 0
        standing = standing_read()
        is_first = not self._heads or at - self._heads[-1][0] > STALE_S
        with self._lock:
            self._standing = standing
        if is_first:  # what was numbered before the head may be committed later: it is read whole once more after that
            self._heads.clear()
        self._heads.append((at, head))
        self._read_at = time.monotonic()
        self._whole_at = self._read_at - (WHOLE_S - OVERLAP_S if is_first else 0)

    def _read_whole_beside(self) -> None:
        try:
            self._read_whole()
        except DatabaseError:  # whoever asks next tries again
            log.warning("The queue could not be read", exc_info=True)
        finally:
            connections.close_all()  # of this thread
            self._renewing.release()

    def _is_short(self) -> bool:
        return not Session.objects.filter(state=SessionState.QUEUED).order_by()[SHORT : SHORT + 1].exists()


shown = ShownQueue()
