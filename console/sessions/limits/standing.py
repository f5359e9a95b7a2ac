"""Where sessions stand in a queue, and who starts next: what a change moves is put in order anew, no more.

A session that comes or goes changes the ranks of its project's others, and through them those of the people who have
some there. Everybody else's places stay. The rules are those of ``turns.py``.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from console.sessions.limits.turns import LAST, Owner, Place, Ranked, Waiting, person_places, project_ranks

MOST_MOVED = 100  # of more, all that stay are gone through once: it costs less than to look for each


@dataclass
class Running:
    """A session that has a runtime: whose it is, and how many devices it has."""

    project_id: str
    owner: Owner
    devices: int


@dataclass
class Standing:
    """The queue of one moment. Not for several threads at once.

    ``put``, ``start`` and ``remove`` say what has become of a session, ``free`` of a person; ``settle`` comes before a
    question.
    ``limits`` is how many devices a project may use (absent: any).
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)  # of all, in order

    def __post_init__(self) -> None:
        self._place: dict[str, Place] = {}
        self._ranked: dict[str, Ranked] = {}
        self._of_project: defaultdict[str, set[str]] = defaultdict(set)
        self._of_owner: defaultdict[Owner, set[str]] = defaultdict(set)
        self._people: Counter[Owner] = Counter()  # runtimes
        self._freed: dict[Owner, int] = {}
        self._projects: Counter[str] = Counter()  # runtimes
        self._devices: Counter[str] = Counter()  # of runtimes
        self._taken: dict[str, int] = {}  # the same with what waits and is not held, of projects where something waits
        self._moved_projects: set[str] = set()
        self._moved_owners: set[Owner] = set()

    def put(self, entry: Waiting) -> None:
        """It waits, as ``entry`` says."""
        if self.waiting.get(entry.session_id) == entry:
            return
        self.remove(entry.session_id)
        self.waiting[entry.session_id] = entry
        self._of_project[entry.project_id].add(entry.session_id)
        self._of_owner[entry.owner].add(entry.session_id)
        self._moved_projects.add(entry.project_id)
        self._moved_owners.add(entry.owner)

    def start(self, session_id: str, running: Running) -> None:
        """It has a runtime."""
        if self.running.get(session_id) != running:
            self.remove(session_id)
            self.running[session_id] = running
            self._count(running, 1)

    def remove(self, session_id: str) -> None:
        """It neither waits nor runs."""
        if (running := self.running.pop(session_id, None)) is not None:
            self._count(running, -1)
        if (entry := self.waiting.pop(session_id, None)) is not None:
            self._of_project[entry.project_id].discard(session_id)
            self._of_owner[entry.owner].discard(session_id)
            self._ranked.pop(session_id, None)
            self._moved_projects.add(entry.project_id)
            self._moved_owners.add(entry.owner)
            self._place_set(session_id, None)

    def limit_all(self, limits: Mapping[str, int]) -> None:
        """The quotas of all projects, as they are now."""
        changed = {project for project, _ in limits.items() ^ self.limits.items()}
        self._moved_projects |= changed & self._of_project.keys()
        self.limits = limits

    def free(self, owner: Owner, at: int) -> None:
        """Their last runtime that is over ended then, in microseconds since 1970."""
        if self._freed.get(owner) != at:
            self._freed[owner] = at
            self._moved_owners.add(owner)

    def settle(self) -> int:
        """Put in order what the changes since the last time have moved; how many places that were."""
        for project in self._moved_projects:
            self._rank(project)
        moved: list[tuple[str, Place]] = []
        for owner in self._moved_owners:
            owned = [self._ranked[session_id] for session_id in self._of_owner[owner]]
            placed = person_places(owned, running=self._people[owner], freed=self._freed.get(owner, 0))
            moved += [(session_id, place) for place, session_id in placed if self._place.get(session_id) != place]
            if not owned:
                del self._of_owner[owner]
        if len(moved) > MOST_MOVED:
            left = {self._place[session_id] for session_id, _ in moved if session_id in self._place}
            self._place |= dict(moved)
            # Two stretches that are in order, which ``sort`` merges.
            self.places = [place for place in self.places if place not in left]
            self.places += sorted(place for _, place in moved)
            self.places.sort()
        else:
            for session_id, _ in moved:
                self._place_set(session_id, None)
            for session_id, place in moved:
                self._place_set(session_id, place)
        self._moved_projects.clear()
        self._moved_owners.clear()
        return len(moved)

    def renew(self, session_ids: Iterable[str], entries: Iterable[Waiting]) -> bool:
        """Whether these wait as ``entries`` says. Otherwise it is put in order by those, which are all that wait."""
        waiting = {entry.session_id: entry for entry in entries}
        for session_id in session_ids:
            if session_id not in waiting:
                self.remove(session_id)
        for entry in waiting.values():
            self.put(entry)
        is_known = not self._moved_projects
        self.settle()
        return is_known

    def next_ids(self) -> Iterator[str]:
        """All that wait and are not held, in their order."""
        return (arrival[1] for is_held, *_, arrival in self.places if not is_held)

    def position(self, session_id: str) -> int | None:
        """1 is next; None for one that does not wait."""
        place = self._place.get(session_id)
        return None if place is None else bisect_left(self.places, place) + 1

    def position_new(self, *, project_id: str, owner: Owner, devices: int) -> int:
        """Where one that came now would stand, as the last of its project."""
        limit = self.limits.get(project_id)
        is_held = limit is not None and self._taken.get(project_id, self._devices[project_id]) + devices > limit
        project_rank = self._projects[project_id] + len(self._of_project.get(project_id, ()))
        own = Ranked(is_held, True, project_rank, LAST, "")
        before = sum(self._ranked[session_id] < own for session_id in self._of_owner.get(owner, ()))
        person_rank = self._people[owner] + before
        return bisect_left(self.places, (is_held, True, person_rank, project_rank, LAST)) + 1

    def is_held(self, session_id: str) -> bool:
        """Whether its project's quota keeps it, which waits, from starting."""
        return self._place[session_id][0]

    def startable(self, but_not: Iterable[str] = ()) -> int:
        """How many wait and are not held, ``but_not`` these."""
        free = bisect_left(self.places, (True, False, -1, -1, LAST))
        return free - sum(session_id in self._place and not self.is_held(session_id) for session_id in but_not)

    def _rank(self, project: str) -> None:
        entries = [self.waiting[session_id] for session_id in self._of_project.get(project, ())]
        ranked, self._taken[project] = project_ranks(
            entries, running=self._projects[project], used=self._devices[project], limit=self.limits.get(project)
        )
        for each in ranked:
            if self._ranked.get(each.session_id) != each:
                self._ranked[each.session_id] = each
                self._moved_owners.add(self.waiting[each.session_id].owner)
        if not entries:
            self._of_project.pop(project, None)
            del self._taken[project]

    def _count(self, running: Running, step: int) -> None:
        self._people[running.owner] += step
        self._projects[running.project_id] += step
        self._devices[running.project_id] += step * running.devices
        self._moved_owners.add(running.owner)
        self._moved_projects.add(running.project_id)

    def _place_set(self, session_id: str, place: Place | None) -> None:
        if (before := self._place.pop(session_id, None)) is not None:
            del self.places[bisect_left(self.places, before)]
        if place is not None:
            self._place[session_id] = place
            insort(self.places, place)
