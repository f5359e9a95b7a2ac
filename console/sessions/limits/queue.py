"""The queue of this server: who starts next, and where each session stands. The rules are those of ``turns.py``."""

from collections import Counter
from collections.abc import Iterable, Mapping

from django.db.models import Sum
from django.db.models.functions import Coalesce, Greatest

from console.sessions.limits.shown_queue import shown, waiting_rows
from console.sessions.limits.standing import Standing
from console.sessions.models import Session
from console.sessions.transitions import WITH_RUNTIME
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState


def queue_next(*, slots: Mapping[str, int], unknown: bool = True) -> list[str]:
    """The ids of the sessions that start now, given so many free slots at each place.

    One whose place is full lets those of other places go by. With ``unknown``, those whose place is not there any more
    are among them: their start says so. Of a long queue what has moved since the last time is read, and those that
    start.
    """
    left, elsewhere = Counter(slots), _elsewhere()
    if not unknown:
        left.update(dict.fromkeys(elsewhere.values() - left.keys(), 0))
    if _is_over(left, elsewhere):
        return []
    with shown.now(exact=True) as standing:
        while True:
            chosen = _chosen(standing, left.copy(), elsewhere)
            # Rows may go or change without a move: with their project, a person, or as devices are decided.
            if standing.renew(chosen, waiting_rows(Session.objects.filter(id__in=chosen))):
                return chosen


def _chosen(standing: Standing, left: Counter[str], elsewhere: Mapping[str, str]) -> list[str]:
    chosen: list[str] = []
    for session_id in standing.next_ids():
        if _is_over(left, elsewhere):
            break
        place = elsewhere.get(session_id, HERE)
        if place not in left or left[place] > 0:
            left[place] -= place in left
            chosen.append(session_id)
    return chosen


def _is_over(left: Counter[str], elsewhere: Mapping[str, str]) -> bool:
    """Whether nothing that waits at any place could start."""
    return left.total() <= 0 and left.keys() >= set(elsewhere.values())


def queue_waiting() -> int:
    """How many queued sessions wait for a slot or devices here: not those that their project's quota holds back."""
    elsewhere = _elsewhere()
    with shown.now() as standing:
        return standing.startable(but_not=elsewhere)


def _elsewhere() -> dict[str, str]:
    """The places of the queued sessions that do not run here."""
    queued = Session.objects.filter(state=SessionState.QUEUED).exclude(place=HERE)
    return dict(queued.values_list("id", "place").order_by())


def queue_positions(session_ids: Iterable[str]) -> dict[str, int]:
    """The positions of those that are queued; 1 is next. In a long queue as they were some seconds ago."""
    with shown.now() as standing:
        found = {session_id: standing.position(session_id) for session_id in session_ids}
    return {session_id: position for session_id, position in found.items() if position is not None}


def queue_places(session_ids: Iterable[str]) -> dict[str, tuple[int, bool]]:
    """As ``queue_positions``, and whether its project's quota keeps it from starting."""
    with shown.now() as standing:
        found = [(session_id, standing.position(session_id)) for session_id in session_ids]
        return {each: (position, standing.is_held(each)) for each, position in found if position is not None}


def queue_place_new(*, session: Session) -> tuple[int, bool]:
    """As ``queue_places``, of one that was not there yet; what its quota says of it is not known until it is."""
    return queue_position_new(project_id=session.project_id, person=session.person_id), True


def queue_position(*, session: Session) -> int | None:
    """1 is next; None for a session that is not queued. One that was not there yet gets the position it will have."""
    if session.state != SessionState.QUEUED:
        return None
    found = queue_positions([session.id]).get(session.id)
    return found or queue_position_new(project_id=session.project_id, person=session.person_id)


def queue_position_new(*, project_id: str, person: int | None, devices: int = 1) -> int:
    """Where a session that is made now would stand; 1 is next."""
    owner = project_id if person is None else person
    with shown.now() as standing:
        return standing.position_new(project_id=project_id, owner=owner, devices=max(1, devices))


def devices_in_use() -> Counter[str]:
    """The devices of each project's runtimes. A runtime without a GPU counts as one."""
    running = Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id").order_by()
    return Counter(dict(running.annotate(total=Sum(Greatest(Coalesce("devices", 1), 1)))))
