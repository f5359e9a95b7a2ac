"""Whose turn it is: the queued sessions of all projects in the order in which they start.

1. A session whose runtime died comes first: it had its turn and lost it through no fault of its own.
2. People share the slots equally: one's first runtime goes before any other's second, and so on, however many projects
   they have. At the same number projects share them in the same way.
3. Inside a project its own priorities decide, then the order of arrival. A priority takes nothing from other projects.
   A session that was suspended, or whose server was stopped, arrived when it was made: it gave its slot up meanwhile.
4. A project's quota holds back what would exceed it; those come last and do not start.

A session of an older server names no person: its project stands for one.
"""

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db import DatabaseError, connections
from django.db.models import Sum
from django.db.models.functions import Coalesce, Greatest

from console.sessions.models import Session
from console.sessions.transitions import WITH_RUNTIME
from console.users.models import Project
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

SHORT = 500  # a queue of so many is put in order for every question, in some milliseconds
KEPT_S, KEPT_TIMES = 2.0, 20  # the order of a longer one is kept so long, or so many times as long as it took
STALE_S = 30.0  # after that a kept one is too old to be shown while a new one is made
log = logging.getLogger(__name__)
Place = tuple[bool, bool, int, int, int]  # what is compared: held, fresh, the person's rank, the project's, arrival
LAST = 1 << 62


class Waiting(NamedTuple):
    """What the order depends on. ``arrival`` counts those who came before, in all projects."""

    arrival: int
    session_id: str
    project_id: str
    priority: int
    restarts: int
    devices: int | None = 1
    person: int | None = None


class Turn(NamedTuple):
    """One queued session; ``is_held`` while its project's quota keeps it from starting."""

    session_id: str
    is_held: bool


@dataclass(frozen=True)
class Order:
    """The whole queue at one moment. ``people`` and ``projects`` count what each has running and queued."""

    turns: list[Turn]
    places: list[Place]
    positions: dict[str, int]
    people: Mapping[str | int, int]
    projects: Mapping[str, int]
    devices: Mapping[str, int]
    limits: Mapping[str, int]


def turns(
    waiting: Iterable[Waiting],
    *,
    running: Mapping[str, int],
    limits: Mapping[str, int],
    used: Mapping[str, int] | None = None,
    people: Mapping[str | int, int] | None = None,
) -> Order:
    """The order. ``running`` counts the runtimes of a project, ``people`` those of a person (absent: its project's).

    ``used`` counts a project's devices (absent: one for each runtime); ``limits`` is how many it may use (absent: any).
    """
    in_use = dict(running if used is None else used)
    by_project: defaultdict[str, list[tuple[bool, int, int, Waiting]]] = defaultdict(list)
    for entry in waiting:
        by_project[entry.project_id].append((entry.restarts == 0, -entry.priority, entry.arrival, entry))
    by_person: defaultdict[str | int, list[tuple[bool, bool, int, int, str]]] = defaultdict(list)
    projects = Counter(running)
    for project_id, entries in by_project.items():
        entries.sort()
        limit = limits.get(project_id)
        for is_fresh, _, arrival, entry in entries:
            wanted = max(1, entry.devices or 1)
            is_held = limit is not None and in_use.get(project_id, 0) + wanted > limit
            in_use[project_id] = in_use.get(project_id, 0) + (0 if is_held else wanted)
            person = project_id if entry.person is None else entry.person
            by_person[person].append((is_held, is_fresh, projects[project_id], arrival, entry.session_id))
            projects[project_id] += 1
    counts: Counter[str | int] = Counter(running if people is None else people)
    ranked: list[tuple[Place, str]] = []
    for person, owned in by_person.items():
        owned.sort()
        for is_held, is_fresh, rank, arrival, session_id in owned:
            ranked.append(((is_held, is_fresh, counts[person], rank, arrival), session_id))
            counts[person] += 1
    ranked.sort()
    return Order(
        turns=[Turn(session_id, place[0]) for place, session_id in ranked],
        places=[place for place, _ in ranked],
        positions={session_id: position for position, (_, session_id) in enumerate(ranked, start=1)},
        people=counts,
        projects=projects,
        devices=in_use,
        limits=limits,
    )


def queue_order() -> Order:
    """The queue as it is now: four queries, however long it is."""
    queued = Session.objects.filter(state=SessionState.QUEUED).order_by("state_since", "id")
    rows = queued.values_list("id", "project_id", "priority", "restarts", "devices", "person_id").iterator(2000)
    waiting = (Waiting(arrival, *row) for arrival, row in enumerate(rows))
    running = list(Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id", "person_id"))
    return turns(
        waiting,
        running=Counter(project_id for project_id, _ in running),
        limits=_limits(),
        used=devices_in_use(),
        people=Counter(project_id if person is None else person for project_id, person in running),
    )


def queue_next(*, slots: Mapping[str, int]) -> list[str]:
    """The ids of the sessions that start now, given so many free slots at each place.

    One whose place is full lets those of other places go by. One whose place is not there any more is among them: its
    start says so.
    """
    left, elsewhere = Counter(slots), _elsewhere()
    if left.total() <= 0 and left.keys() >= set(elsewhere.values()):
        return []
    chosen = []
    for turn in queue_order().turns:
        place = elsewhere.get(turn.session_id, HERE)
        if place not in left or left[place] > 0:
            left[place] -= place in left
            if not turn.is_held:
                chosen.append(turn.session_id)
    return chosen


def queue_waiting() -> int:
    """How many queued sessions wait for a slot or devices here: not those that their project's quota holds back."""
    elsewhere = _elsewhere()
    return sum(not turn.is_held and turn.session_id not in elsewhere for turn in shown.get().turns)


def _elsewhere() -> dict[str, str]:
    """The places of the queued sessions that do not run here."""
    queued = Session.objects.filter(state=SessionState.QUEUED).exclude(place=HERE)
    return dict(queued.values_list("id", "place").order_by())


class ShownOrder:
    """The order for those who ask where they are: many sessions ask every second, and each waits for its answer.

    A long queue is put in order in a thread beside those who ask; only the first of all, and one after nobody has asked
    for long, waits for it.
    """

    def __init__(self) -> None:
        self._order: Order | None = None
        self._until = 0.0
        self._renewing = threading.Lock()

    def get(self) -> Order:
        """Of a short queue as it is now, of a long one as it was some seconds ago."""
        late_s = time.monotonic() - self._until
        if self._order is None or late_s > STALE_S or self._is_short():
            return self._renewed()
        if late_s >= 0 and self._renewing.acquire(blocking=False):
            threading.Thread(target=self._renew_beside, name="queue-order", daemon=True).start()
        return self._order

    def _renewed(self) -> Order:
        began = time.monotonic()
        order = queue_order()
        ended = time.monotonic()
        self._order, self._until = order, ended + max(KEPT_S, KEPT_TIMES * (ended - began))
        return order

    def _renew_beside(self) -> None:
        try:
            self._renewed()
        except DatabaseError:  # whoever asks next tries again
            log.warning("The queue could not be put in order", exc_info=True)
        finally:
            connections.close_all()  # of this thread
            self._renewing.release()

    def _is_short(self) -> bool:
        return not Session.objects.filter(state=SessionState.QUEUED).order_by()[SHORT : SHORT + 1].exists()


shown = ShownOrder()


def queue_positions() -> dict[str, int]:
    """The position of every queued session; 1 is next. Of a long queue as it was some seconds ago."""
    return shown.get().positions


def queue_position(*, session: Session) -> int | None:
    """1 is next; None for a session that is not queued. One that was not there yet gets the position it will have."""
    if session.state != SessionState.QUEUED:
        return None
    found = shown.get().positions.get(session.id)
    return found or queue_position_new(project_id=session.project_id, person=session.person_id)


def queue_position_new(*, project_id: str, person: int | None, devices: int = 1) -> int:
    """Where a session that is made now would stand; 1 is next."""
    order = shown.get()
    limit = order.limits.get(project_id)
    is_held = limit is not None and order.devices.get(project_id, 0) + max(1, devices) > limit
    rank = order.people.get(project_id if person is None else person, 0)
    place = (is_held, True, rank, order.projects.get(project_id, 0), LAST)
    return bisect_left(order.places, place) + 1


def devices_in_use() -> Counter[str]:
    """The devices of each project's runtimes. A runtime without a GPU counts as one."""
    running = Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id").order_by()
    return Counter(dict(running.annotate(total=Sum(Greatest(Coalesce("devices", 1), 1)))))


def _limits() -> dict[str, int]:
    """How many devices each project with a quota may use."""
    quotas = Project.objects.filter(device_quota__isnull=False).values_list("id", "device_quota")
    return {project_id: quota for project_id, quota in quotas if quota is not None}
