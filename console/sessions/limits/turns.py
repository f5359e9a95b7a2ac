"""Whose turn it is, as a rule over rows: the order in which the queued sessions of all projects
start.

1. A session whose runtime died comes first: it had its turn and lost it through no fault of its own.
2. People share the slots equally: one's first runtime goes before any other's second, and so on, however many projects
   they have. At the same number projects share them in the same way, and then whoever came first. A person whose
   runtime is over comes at that moment with all that they have waiting: behind who waited then, however long their own
   list is and however few slots there are.
3. Inside a project its own priorities decide, then the order of arrival. A priority takes nothing from other projects.
   A session that was suspended, or whose server was stopped, arrived when it was made: it gave its slot up meanwhile.
4. A project's quota holds back what would exceed it; those come last and do not start.

The sessions of a person who was removed name none: their project stands for one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Arrival = tuple[int, str]  # microseconds since 1970, and its id where two came at once
Owner = str | int  # a person, or a project that stands for one
# what is compared: held, fresh, the person's rank, the project's, arrival
Place = tuple[bool, bool, int, int, Arrival]
LAST: Arrival = (1 << 62, "")


class Waiting(NamedTuple):
    """What the order depends on."""

    arrival: Arrival
    session_id: str
    project_id: str
    priority: int
    restarts: int
    devices: int = 1
    person: int | None = None

    @property
    def owner(self) -> Owner:
        """Whose turn it uses up."""
        return self.project_id if self.person is None else self.person


class Ranked(NamedTuple):
    """One of a project's: what is compared among those of one person, and its id."""

    is_held: bool
    is_fresh: bool
    rank: int
    arrival: Arrival
    session_id: str


class Turn(NamedTuple):
    """One queued session; ``is_held`` while its project's quota keeps it from starting."""

    session_id: str
    is_held: bool


@dataclass
class Occupied:
    """What people and projects have beside the queue.

    ``running`` counts the runtimes of a project, ``people`` those of a person, ``used`` a project's
    devices, of which ``limits`` is how many it may use (absent: any). ``freed`` is when the last
    runtime of a person that is over ended (microseconds since 1970; absent: none).
    """

    running: Counter[str] = field(default_factory=Counter)
    people: Counter[Owner] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    limits: Mapping[str, int] = field(default_factory=dict)
    freed: Mapping[Owner, int] = field(default_factory=dict)

    def add(self, project_id: str, owner: Owner, devices: int) -> None:
        """One more runtime."""
        self.running[project_id] += 1
        self.people[owner] += 1
        self.used[project_id] += devices


def turns(waiting: Iterable[Waiting], occupied: Occupied) -> list[Turn]:
    """All that wait, in the order in which they start; what is held comes last and does not."""
    of_project: defaultdict[str, list[Waiting]] = defaultdict(list)
    owners: dict[str, Owner] = {}
    for entry in waiting:
        of_project[entry.project_id].append(entry)
        owners[entry.session_id] = entry.owner
    of_person: defaultdict[Owner, list[Ranked]] = defaultdict(list)
    for project_id, entries in of_project.items():
        for each in _project_ranks(
            entries,
            running=occupied.running[project_id],
            used=occupied.used[project_id],
            limit=occupied.limits.get(project_id),
        ):
            of_person[owners[each.session_id]].append(each)
    placed: list[tuple[Place, str]] = []
    for owner, owned in of_person.items():
        placed += _person_places(
            owned, running=occupied.people[owner], freed=occupied.freed.get(owner, 0)
        )
    return [Turn(session_id, place[0]) for place, session_id in sorted(placed)]


def _project_ranks(
    entries: Iterable[Waiting], *, running: int, used: int, limit: int | None
) -> list[Ranked]:
    """A project's own queue in its order.

    ``running`` counts its runtimes, ``used`` their devices, of which it may have ``limit`` (None:
    any).
    """
    ranked = []
    ordered = sorted(
        entries, key=lambda entry: (entry.restarts == 0, -entry.priority, entry.arrival)
    )
    for rank, entry in enumerate(ordered, start=running):
        wanted = max(1, entry.devices)
        is_held = limit is not None and used + wanted > limit
        used += 0 if is_held else wanted
        ranked.append(Ranked(is_held, entry.restarts == 0, rank, entry.arrival, entry.session_id))
    return ranked


def _person_places(owned: Iterable[Ranked], *, running: int, freed: int) -> list[tuple[Place, str]]:
    """The places of what one person has in the queue, in all projects, and has ``running`` runtimes
    beside it.

    ``freed`` is when the last runtime that is over ended (microseconds since 1970; 0: none).
    """
    return [
        (
            (
                each.is_held,
                each.is_fresh,
                rank,
                each.rank,
                (max(each.arrival[0], freed), each.arrival[1]),
            ),
            each.session_id,
        )
        for rank, each in enumerate(sorted(owned), start=running)
    ]
