"""The queue of this server: who starts next, and where each session stands. The rules are those of
``turns.py``.

Each question reads the queue and puts it in order: some 0.1 s of CPU where 10,000 wait.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db.models import QuerySet, Sum
from django.db.models.functions import Coalesce, Greatest

from console.sessions.limits.turns import LAST, Occupied, Owner, Turn, Waiting, turns
from console.sessions.models import Session
from console.sessions.states import WITH_RUNTIME
from console.users.models import Project, User
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

COLUMNS = ("state_since", "id", "project_id", "priority", "restarts", "devices", "person_id")
NEW = "new"  # in the place of the id of a session that is not made yet


def queue_read(*more: Waiting) -> list[Turn]:
    """The whole queue as it is now, with ``more``, in its order."""
    queued = Session.objects.filter(state=SessionState.QUEUED).order_by()
    waiting = [*_waiting_rows(queued), *more]
    quotas = Project.objects.filter(device_quota__isnull=False).values_list("id", "device_quota")
    limits = {project_id: quota for project_id, quota in quotas if quota is not None}
    occupied = Occupied(limits=limits, freed=_slots_freed(queued))
    running = Session.objects.filter(state__in=WITH_RUNTIME).order_by()
    for project_id, person, devices in running.values_list("project_id", "person_id", "devices"):
        occupied.add(project_id, project_id if person is None else person, max(1, devices))
    return turns(waiting, occupied)


def _waiting_rows(queued: QuerySet[Session]) -> Iterator[Waiting]:
    for since, session_id, *row in queued.values_list(*COLUMNS).iterator(2000):
        yield Waiting((int(since.timestamp() * 1_000_000), session_id), session_id, *row)


def _slots_freed(queued: QuerySet[Session]) -> dict[Owner, int]:
    """When the last runtime that is over ended, of each person of these sessions; microseconds
    since 1970."""
    ended = {"slot_freed_at__isnull": False}
    people = User.objects.filter(id__in=queued.values("person_id"), **ended)
    projects = Project.objects.filter(
        id__in=queued.filter(person_id=None).values("project_id"), **ended
    )
    found: list[tuple[Owner, datetime | None]] = list(people.values_list("id", "slot_freed_at"))
    found += projects.values_list("id", "slot_freed_at")
    return {owner: int(at.timestamp() * 1_000_000) for owner, at in found if at is not None}


def queue_next(*, slots: Mapping[str, int]) -> list[str]:
    """The ids of the sessions that start now, given so many free slots at each place.

    One whose place is full lets those of other places go by. Those whose place is not there any
    more are among them: their start says so.
    """
    left, elsewhere = Counter(slots), _elsewhere()
    chosen: list[str] = []
    # Where nothing can start, no order is computed: a full server asks twice a second.
    for turn in () if _is_over(left, elsewhere) else queue_read():
        if turn.is_held or _is_over(left, elsewhere):
            break
        place = elsewhere.get(turn.session_id, HERE)
        if place not in left or left[place] > 0:
            left[place] -= place in left
            chosen.append(turn.session_id)
    return chosen


def _is_over(left: Counter[str], elsewhere: Mapping[str, str]) -> bool:
    """Whether nothing that waits at any place could start."""
    return left.total() <= 0 and left.keys() >= set(elsewhere.values())


def queue_waiting() -> int:
    """How many queued sessions wait for a slot or devices here: not those that their project's
    quota holds back.
    """
    elsewhere = _elsewhere()
    return sum(not turn.is_held and turn.session_id not in elsewhere for turn in queue_read())


def _elsewhere() -> dict[str, str]:
    """The places of the queued sessions that do not run here."""
    queued = Session.objects.filter(state=SessionState.QUEUED).exclude(place=HERE)
    return dict(queued.values_list("id", "place").order_by())


def queue_positions(session_ids: Iterable[str]) -> dict[str, int]:
    """The positions of those that are queued; 1 is next."""
    return {session_id: position for session_id, (position, _) in queue_places(session_ids).items()}


def queue_places(session_ids: Iterable[str]) -> dict[str, tuple[int, bool]]:
    """As ``queue_positions``, and whether its project's quota keeps it from starting."""
    wanted = set(session_ids)
    order = enumerate(queue_read() if wanted else (), start=1)
    return {
        turn.session_id: (position, turn.is_held)
        for position, turn in order
        if turn.session_id in wanted
    }


def queue_look(sessions: Iterable[Session]) -> dict[str, int]:
    """As ``queue_positions``, of sessions that were read before: of none that is queued nothing is
    read again."""
    return queue_positions(
        session.id for session in sessions if session.state == SessionState.QUEUED
    )


def queue_position(*, session: Session) -> int | None:
    """1 is next; None for a session that is not queued."""
    return queue_look([session]).get(session.id)


def queue_position_new(*, project_id: str, person: int | None, devices: int = 1) -> int:
    """Where a session that is made now would stand, as the last of its project; 1 is next."""
    new = Waiting(LAST, NEW, project_id, -LAST[0], 0, max(1, devices), person)
    return next(
        position for position, turn in enumerate(queue_read(new), start=1) if turn.session_id == NEW
    )


def devices_in_use() -> Counter[str]:
    """The devices of each project's runtimes. A runtime without a GPU counts as one."""
    running = Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id").order_by()
    return Counter(dict(running.annotate(total=Sum(Greatest(Coalesce("devices", 1), 1)))))
