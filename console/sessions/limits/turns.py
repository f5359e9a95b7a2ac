"""Whose turn it is, as a rule over rows: the order in which the queued sessions of all projects start.

1. A session whose runtime died comes first: it had its turn and lost it through no fault of its own.
2. People share the slots equally: one's first runtime goes before any other's second, and so on, however many projects
   they have. At the same number projects share them in the same way, and then whoever came first. A person whose
   runtime is over comes at that moment with all that they have waiting: behind who waited then, however long their own
   list is and however few slots there are.
3. Inside a project its own priorities decide, then the order of arrival. A priority takes nothing from other projects.
   A session that was suspended, or whose server was stopped, arrived when it was made: it gave its slot up meanwhile.
4. A project's quota holds back what would exceed it; those come last and do not start.

A session of an older server names no person: its project stands for one.
"""

from collections.abc import Iterable
from typing import NamedTuple

Arrival = tuple[int, str]  # microseconds since 1970, and its id where two came at once
Owner = str | int  # a person, or a project that stands for one
Place = tuple[bool, bool, int, int, Arrival]  # what is compared: held, fresh, the person's rank, the project's, arrival
LAST: Arrival = (1 << 62, "")


class Waiting(NamedTuple):
    """What the order depends on."""

    arrival: Arrival
    session_id: str
    project_id: str
    priority: int
    restarts: int
    devices: int | None = 1
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


def project_ranks(
    entries: Iterable[Waiting], *, running: int, used: int, limit: int | None
) -> tuple[list[Ranked], int]:
    """A project's own queue in its order, and its devices with those of what is not held.

    ``running`` counts its runtimes, ``used`` their devices, of which it may have ``limit`` (None: any).
    """
    ranked = []
    ordered = sorted(entries, key=lambda entry: (entry.restarts == 0, -entry.priority, entry.arrival))
    for rank, entry in enumerate(ordered, start=running):
        wanted = max(1, entry.devices or 1)
        is_held = limit is not None and used + wanted > limit
        used += 0 if is_held else wanted
        ranked.append(Ranked(is_held, entry.restarts == 0, rank, entry.arrival, entry.session_id))
    return ranked, used


def person_places(owned: Iterable[Ranked], *, running: int, freed: int = 0) -> list[tuple[Place, str]]:
    """The places of what one person has in the queue, in all projects, and has ``running`` runtimes beside it.

    ``freed`` is when the last runtime that is over ended (microseconds since 1970; 0: none).
    """
    return [
        (
            (each.is_held, each.is_fresh, rank, each.rank, (max(each.arrival[0], freed), each.arrival[1])),
            each.session_id,
        )
        for rank, each in enumerate(sorted(owned), start=running)
    ]
