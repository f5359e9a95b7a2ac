"""Whose turn it is."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.sessions.limits.queue import (
    queue_look,
    queue_next,
    queue_position,
    queue_position_new,
    queue_positions,
    queue_waiting,
)
from console.sessions.limits.turns import Occupied, Owner, Turn, Waiting, turns
from console.sessions.models import Session
from console.sessions.services import session_wake
from console.sessions.states import Actor
from console.sessions.transitions import session_move
from console.users.models import Project, User
from console.users.selectors import project_get
from support import factories
from support.generated import any_speed
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState


def waiting(
    session_id: str,
    project_id: str = "a",
    *,
    priority: int = 0,
    restarts: int = 0,
    arrival: int = 0,
) -> Waiting:
    return Waiting((arrival, session_id), session_id, project_id, priority, restarts)


def queue_of(
    entries: Iterable[Waiting],
    *,
    running: dict[str, int] | None = None,
    limits: dict[str, int] | None = None,
    freed: dict[Owner, int] | None = None,
) -> list[Turn]:
    """With so many runtimes of each project, of nobody but itself, and of one device."""
    occupied = Occupied(limits=limits or {}, freed=freed or {})
    for project, count in (running or {}).items():
        for _ in range(count):
            occupied.add(project, project, 1)
    return turns(entries, occupied)


def order(*entries: Waiting, **state: Any) -> list[str]:
    return [session_id for session_id, _ in queue_of(entries, **state)]


def test_first_come_is_first_served_inside_a_project() -> None:
    assert order(waiting("late", arrival=2), waiting("early", arrival=1)) == ["early", "late"]


def test_a_priority_goes_first_inside_its_project() -> None:
    assert order(waiting("early"), waiting("urgent", priority=5, arrival=9)) == ["urgent", "early"]


def test_a_priority_takes_nothing_from_another_project() -> None:
    flood = [waiting(f"flood-{i}", "a", priority=100, arrival=i) for i in range(3)]
    assert order(*flood, waiting("alone", "b", arrival=9)) == [
        "flood-0",
        "alone",
        "flood-1",
        "flood-2",
    ]


def test_a_project_that_runs_something_waits_for_those_that_run_nothing() -> None:
    assert order(waiting("busy", "a"), waiting("idle", "b", arrival=9), running={"a": 1}) == [
        "idle",
        "busy",
    ]


def test_a_session_whose_runtime_died_goes_before_all_others() -> None:
    assert order(
        waiting("new", "a"), waiting("died", "b", restarts=1, arrival=9), running={"b": 7}
    ) == ["died", "new"]


def test_what_exceeds_a_quota_is_held_and_comes_last() -> None:
    entries = [
        waiting("a-0"),
        waiting("a-1", restarts=1),
        waiting("a-2"),
        waiting("b-0", "b", arrival=9),
    ]
    found = queue_of(entries, running={"a": 1}, limits={"a": 2})
    assert found == [("a-1", False), ("b-0", False), ("a-0", True), ("a-2", True)]


entries = st.lists(
    st.builds(
        Waiting,
        st.tuples(st.integers(0, 99), st.uuids().map(str)),
        st.uuids().map(str),
        st.sampled_from("abc"),
        st.integers(-2, 2),
        st.integers(0, 2),
        st.just(1),
        st.none(),
    ),
    unique_by=lambda entry: entry.session_id,
    max_size=30,
)


@pytest.mark.smoke
@any_speed
@given(
    entries,
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)),
)
def test_everyone_has_one_turn_and_no_quota_is_exceeded(given_entries, running, limits) -> None:
    found = queue_of(given_entries, running=running, limits=limits)
    assert sorted(session_id for session_id, _ in found) == sorted(
        entry.session_id for entry in given_entries
    )
    project_of = {entry.session_id: entry.project_id for entry in given_entries}
    for project, limit in limits.items():
        started = sum(
            not is_held for session_id, is_held in found if project_of[session_id] == project
        )
        room = max(0, limit - running.get(project, 0))
        assert started == min(room, sum(entry.project_id == project for entry in given_entries))


@any_speed
@given(entries)
def test_no_project_is_two_runtimes_ahead_of_one_that_waits(given_entries) -> None:
    fresh = [entry._replace(restarts=0) for entry in given_entries]
    project_of = {entry.session_id: entry.project_id for entry in fresh}
    left = {project: sum(entry.project_id == project for entry in fresh) for project in "abc"}
    started = dict.fromkeys("abc", 0)
    for session_id in order(*fresh):
        project = project_of[session_id]
        started[project] += 1
        left[project] -= 1
        assert all(started[project] <= started[other] + 1 for other in "abc" if left[other])


def plain_order(entries: list[Waiting], occupied: Occupied) -> list[tuple[str, bool]]:
    """The rules of ``turns.py`` as they are written there, each entry compared with each other."""
    ranks: dict[Waiting, tuple[bool, bool, int]] = {}  # held, fresh, the project's rank

    def urgency(entry: Waiting) -> tuple[bool, int, tuple[int, str]]:
        return entry.restarts == 0, -entry.priority, entry.arrival

    for entry in sorted(entries, key=urgency):
        before = [other for other in ranks if other.project_id == entry.project_id]
        starting = [other for other in before if not ranks[other][0]]
        devices = occupied.used[entry.project_id] + sum(
            max(1, other.devices or 1) for other in [*starting, entry]
        )
        is_held = devices > occupied.limits.get(entry.project_id, 1000)
        ranks[entry] = (
            is_held,
            entry.restarts == 0,
            occupied.running[entry.project_id] + len(before),
        )

    def place(entry: Waiting) -> tuple[Any, ...]:
        of_person = [other for other in entries if other.owner == entry.owner]
        first = [
            other
            for other in of_person
            if (ranks[other], other.arrival) < (ranks[entry], entry.arrival)
        ]
        is_held, is_fresh, rank = ranks[entry]
        came = max(entry.arrival[0], occupied.freed.get(entry.owner, 0))
        return (
            is_held,
            is_fresh,
            occupied.people[entry.owner] + len(first),
            rank,
            came,
            entry.session_id,
        )

    return [(entry.session_id, ranks[entry][0]) for entry in sorted(entries, key=place)]


PROJECTS, PEOPLE = "abcd", (None, 1, 2, 3)
anybody = st.tuples(
    st.integers(0, 9), st.sampled_from(PROJECTS), st.integers(-1, 1), st.integers(0, 1)
)
anything = st.tuples(anybody, st.integers(0, 3), st.sampled_from(PEOPLE))


@any_speed
@given(
    st.lists(anything, max_size=30),
    st.lists(
        st.tuples(st.sampled_from(PROJECTS), st.sampled_from(PEOPLE), st.integers(1, 3)), max_size=8
    ),
    st.dictionaries(st.sampled_from(PROJECTS), st.integers(0, 6)),
    st.dictionaries(st.sampled_from([*PROJECTS, 1, 2, 3]), st.integers(1, 12)),
)
def test_the_order_is_that_of_the_rules_read_plainly(rows, running, limits, freed) -> None:
    given_entries = [
        Waiting(
            (at, f"ses_{number:02}"),
            f"ses_{number:02}",
            project,
            priority,
            restarts,
            devices,
            person,
        )
        for number, ((at, project, priority, restarts), devices, person) in enumerate(rows)
    ]
    occupied = Occupied(limits=limits, freed=freed)
    for project, person, devices in running:
        occupied.add(project, project if person is None else person, devices)
    assert turns(given_entries, occupied) == plain_order(given_entries, occupied)


def test_the_queue_in_the_database_is_that_order(project, bob) -> None:
    flood = [factories.session_make(project) for _ in range(3)]
    late = factories.session_make(project_get(user=bob))
    urgent = factories.session_make(project, priority=1)
    ids = [late.id, urgent.id, *(session.id for session in flood)]
    assert queue_next(slots={HERE: 9}) == ids
    assert queue_next(slots={HERE: 2}) == ids[:2] and queue_next(slots={HERE: 0}) == []
    assert queue_positions([*ids, "ses_none"]) == {
        session_id: place for place, session_id in enumerate(ids, start=1)
    }
    assert queue_position(session=urgent) == 2
    running = factories.session_make(project_get(user=bob), state=SessionState.READY)
    assert queue_position(session=running) is None and queue_position(session=urgent) == 1
    assert queue_waiting() == 5, "the quota of none holds it back"


def test_nothing_is_read_for_sessions_that_do_not_wait_or_places_that_are_full(
    project, django_assert_num_queries
):
    waiting, running = (
        factories.session_make(project),
        factories.session_make(project, state=SessionState.READY),
    )
    with django_assert_num_queries(0):
        assert queue_look([running]) == {}
    with django_assert_num_queries(1):  # which places the queued ones have
        assert queue_next(slots={HERE: 0}) == []
    with django_assert_num_queries(5):
        assert queue_look([running, waiting, waiting]) == {waiting.id: 1}


def test_a_session_that_is_woken_has_the_position_of_its_first_start(project, bob) -> None:
    slept = factories.session_make(project, state=SessionState.SUSPENDED)
    others = [factories.session_make(project_get(user=bob)), factories.session_make(project)]
    session_wake(session=slept)
    assert queue_next(slots={HERE: 9}) == [slept.id, *(session.id for session in others)]
    # what its project runs counts all the same
    factories.session_make(project, state=SessionState.READY)
    assert queue_next(slots={HERE: 9}) == [others[0].id, slept.id, others[1].id]


def test_a_project_over_its_quota_starts_nothing(project) -> None:
    Project.objects.filter(id=project.id).update(device_quota=1)
    factories.session_make(project, state=SessionState.READY)
    held = factories.session_make(project)
    assert queue_next(slots={HERE: 5}) == [] and queue_position(session=held) == 1


def test_many_projects_of_one_person_are_no_more_turns() -> None:
    flood = [waiting(f"flood-{i}", f"project-{i}", arrival=i)._replace(person=1) for i in range(61)]
    newcomer = waiting("newcomer", "b", arrival=99)._replace(person=2)
    assert order(*flood, newcomer)[:2] == ["flood-0", "newcomer"]
    beside = Occupied()
    beside.add("other", 1, 1)
    found = [turn.session_id for turn in turns([flood[0], newcomer], beside)]
    assert found == ["newcomer", "flood-0"], "a runtime of any project counts"


def test_with_one_slot_people_take_turns_however_long_ones_list_is() -> None:
    flood = [waiting(f"flood-{i}", f"project-{i}", arrival=i)._replace(person=1) for i in range(5)]
    late = [waiting(f"late-{i}", "b", arrival=9 + i)._replace(person=2) for i in range(2)]
    queue, freed, started = [*flood, *late], {}, []
    for now in range(20, 27):  # one runtime at a time: each is over before the next starts
        first = queue_of(queue, freed=freed)[0].session_id
        (entry,) = [each for each in queue if each.session_id == first]
        queue.remove(entry)
        started.append(entry.session_id)
        freed[entry.owner] = now
    assert started == ["flood-0", "late-0", "flood-1", "late-1", "flood-2", "flood-3", "flood-4"]


def test_who_waited_when_a_runtime_was_over_goes_first_and_who_came_later_does_not() -> None:
    entries = [waiting(str(n), f"project-{n}", arrival=n)._replace(person=n) for n in (1, 5, 9)]
    assert order(*entries, freed={1: 7}) == ["5", "1", "9"]


@pytest.mark.parametrize("has_person", [True, False])
def test_the_end_of_a_runtime_lets_others_by_and_its_recovery_does_not(
    project, alice, bob, has_person
) -> None:
    def make(of: Project, who: User, **fields: Any) -> Session:
        return factories.session_make(of, person=who if has_person else None, **fields)

    ready = make(project, alice, state=SessionState.READY)
    mine, theirs = make(project, alice), make(project_get(user=bob), bob)
    move = {"actor": Actor.RECONCILER, "source": SessionState.READY}
    session_move(session_id=ready.id, target=SessionState.QUEUED, **move)
    Session.objects.filter(id=ready.id).update(state=SessionState.READY)
    assert queue_next(slots={HERE: 9}) == [theirs.id, mine.id], "its runtime counts"
    Session.objects.filter(id=ready.id).update(state=SessionState.SUSPENDED)
    assert queue_next(slots={HERE: 9}) == [mine.id, theirs.id]
    Session.objects.filter(id=ready.id).update(state=SessionState.READY)
    session_move(session_id=ready.id, target=SessionState.FAILED, **move)
    assert queue_next(slots={HERE: 9}) == [theirs.id, mine.id]
    assert queue_positions([theirs.id, mine.id]) == {theirs.id: 1, mine.id: 2}


def test_members_of_one_project_share_with_those_of_others() -> None:
    team = [waiting(f"team-{i}", "team", arrival=i)._replace(person=i) for i in range(5)]
    newcomer = waiting("newcomer", "b", arrival=99)._replace(person=9)
    assert order(*team, newcomer)[:2] == ["team-0", "newcomer"]


def test_a_new_session_is_told_the_position_that_it_will_have(project, alice, bob) -> None:
    for _ in range(3):
        factories.session_make(project, person=alice)
    theirs = project_get(user=bob)
    expected = queue_position_new(project_id=theirs.id, person=bob.pk)
    assert expected == 2 == queue_position(session=factories.session_make(theirs, person=bob))
    assert queue_position_new(project_id=project.id, person=alice.pk) == 5
    Project.objects.filter(id=theirs.id).update(device_quota=1)
    assert queue_position_new(project_id=theirs.id, person=bob.pk) == 5, (
        "held by its quota, it comes last"
    )
