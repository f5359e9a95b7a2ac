"""The whole order of the queue by its rules, all at once: what is kept and changed piece by piece must equal it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from console.sessions.limits.shown_queue import project_limits, slots_freed, waiting_rows
from console.sessions.limits.turns import Owner, Place, Ranked, Waiting, person_places, project_ranks
from console.sessions.models import Session
from console.sessions.transitions import WITH_RUNTIME
from tinkerscript.wire.sessions import SessionState


class Turn(NamedTuple):
    """One queued session; ``is_held`` while its project's quota keeps it from starting."""

    session_id: str
    is_held: bool


def queue_order() -> list[Turn]:
    """Of the rows as they are now."""
    running = list(Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id", "person_id", "devices"))
    used: Counter[str] = Counter()
    for project_id, _, devices in running:
        used[project_id] += max(1, devices or 1)
    return turns(
        waiting_rows(Session.objects.all()),
        running=Counter(project_id for project_id, *_ in running),
        limits=project_limits(),
        used=used,
        people=Counter(project_id if person is None else person for project_id, person, _ in running),
        freed=slots_freed(Session.objects.filter(state=SessionState.QUEUED)),
    )


def turns(
    waiting: Iterable[Waiting],
    *,
    running: Mapping[str, int],
    limits: Mapping[str, int],
    used: Mapping[str, int],
    people: Mapping[Owner, int],
    freed: Mapping[Owner, int],
) -> list[Turn]:
    """``running`` counts the runtimes of a project, ``people`` those of a person, ``used`` a project's devices.

    ``limits`` is how many it may use (absent: any), ``freed`` when the last runtime of a person that is over ended.
    """
    of_project: defaultdict[str, list[Waiting]] = defaultdict(list)
    owners: dict[str, Owner] = {}
    for entry in waiting:
        of_project[entry.project_id].append(entry)
        owners[entry.session_id] = entry.owner
    of_person: defaultdict[Owner, list[Ranked]] = defaultdict(list)
    for project_id, entries in of_project.items():
        ranked, _ = project_ranks(
            entries, running=running.get(project_id, 0), used=used.get(project_id, 0), limit=limits.get(project_id)
        )
        for each in ranked:
            of_person[owners[each.session_id]].append(each)
    placed: list[tuple[Place, str]] = []
    for owner, owned in of_person.items():
        placed += person_places(owned, running=people.get(owner, 0), freed=freed.get(owner, 0))
    placed.sort()
    return [Turn(session_id, place[0]) for place, session_id in placed]
