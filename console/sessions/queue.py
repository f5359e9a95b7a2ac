"""Whose turn it is: the queued sessions of all projects in the order in which they start.

1. A session whose runtime died comes first: it had its turn and lost it through no fault of its own.
2. Projects share the places alike: a project's first runtime goes before any other's second, and so on.
3. Inside a project its own priorities decide, then the order of arrival. A priority takes nothing from other projects.
   A session that was suspended, or whose server was stopped, arrived when it was made: it gave its place up meanwhile.
4. A project's quota holds back what would exceed it; those come last and do not start.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.conf import settings

from console.sessions.models import Session
from console.sessions.moves import WITH_RUNTIME
from console.users.models import Project
from tinkerscript.wire.sessions import SessionState


class Waiting(NamedTuple):
    """What the order depends on. ``arrival`` counts those who came before, in whatever project."""

    arrival: int
    session_id: str
    project_id: str
    priority: int
    restarts: int


class Turn(NamedTuple):
    """One place in the queue; ``is_held`` by the project's quota."""

    session_id: str
    is_held: bool


def turns(
    waiting: Iterable[Waiting], *, running: Mapping[str, int], limits: Mapping[str, int], most: int | None = None
) -> list[Turn]:
    """The order, or its first ``most``.

    ``running`` counts the runtimes of a project, ``limits`` says how many it may have (absent: any).
    """
    by_project: defaultdict[str, list[tuple[bool, int, int, str]]] = defaultdict(list)
    for arrival, session_id, project_id, priority, restarts in waiting:
        by_project[project_id].append((restarts == 0, -priority, arrival, session_id))
    ranked = []
    for project_id, entries in by_project.items():
        taken, limit = running.get(project_id, 0), limits.get(project_id)
        # Nobody stands before somebody of their own project here and behind them there: the first ones are enough.
        first = sorted(entries) if most is None else heapq.nsmallest(most, entries)
        for rank, (is_fresh, _priority, arrival, session_id) in enumerate(first, start=taken):
            ranked.append((limit is not None and rank >= limit, is_fresh, rank, arrival, session_id))
    ranked.sort()
    return [Turn(session_id=entry[-1], is_held=entry[0]) for entry in ranked[:most]]


def queue_turns(*, most: int | None = None) -> list[Turn]:
    """The queue as it is now, or its first ``most``: three queries, whatever its length."""
    queued = Session.objects.filter(state=SessionState.QUEUED).order_by("state_since", "id")
    rows = queued.values_list("id", "project_id", "priority", "restarts").iterator(2000)
    waiting = (Waiting(arrival, *row) for arrival, row in enumerate(rows))
    running = Counter(Session.objects.filter(state__in=WITH_RUNTIME).values_list("project_id", flat=True))
    return turns(waiting, running=running, limits=_limits(), most=most)


def queue_next(*, places: int) -> list[str]:
    """The ids of the sessions that start now, given so many free places."""
    if places <= 0:
        return []
    return [turn.session_id for turn in queue_turns(most=places) if not turn.is_held]


def queue_positions() -> dict[str, int]:
    """The place of every queued session; 1 is next."""
    return {turn.session_id: place for place, turn in enumerate(queue_turns(), start=1)}


def queue_position(*, session: Session) -> int | None:
    """1 is next; None for a session that is not queued."""
    return queue_positions().get(session.id) if session.state == SessionState.QUEUED else None


def devices_each() -> int:
    """The devices of a runtime, the same for each of them. One without a GPU counts as one."""
    return max(1, settings.LAUNCHER.resources.gpus)


def _limits() -> dict[str, int]:
    """How many runtimes each project with a quota may have: the quota counts devices, each runtime uses the same."""
    devices = devices_each()
    quotas = Project.objects.filter(device_quota__isnull=False).values_list("id", "device_quota")
    return {project_id: quota // devices for project_id, quota in quotas}
