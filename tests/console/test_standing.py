"""Where sessions stand in a long queue: as in the whole order, without it."""

import random
import threading
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from console.live.models import EventRecord
from console.scheduling.processes import wait_until
from console.sessions.limits import queue, shown_queue
from console.sessions.limits.queue import (
    queue_next,
    queue_position,
    queue_position_new,
    queue_positions,
    queue_waiting,
)
from console.sessions.limits.shown_queue import ShownQueue, standing_read
from console.sessions.limits.standing import Running, Standing
from console.sessions.limits.turns import Waiting
from console.sessions.models import Session
from console.sessions.services import session_wake
from console.sessions.states import Actor
from console.sessions.transitions import session_move
from console.users.models import Project
from console.users.selectors import project_get
from support import factories
from support.generated import any_speed
from support.whole_queue import Turn, queue_order, turns
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState

QUEUED = SessionState.QUEUED
PROJECTS, PEOPLE, IDS = "abcd", (None, 1, 2, 3), [f"ses_{number:02}" for number in range(24)]
put = st.tuples(
    st.just("put"), st.sampled_from(IDS), st.integers(0, 9), st.sampled_from(PROJECTS), st.integers(-1, 1),
    st.integers(0, 1), st.integers(0, 3), st.sampled_from(PEOPLE),
)  # fmt: skip
start = st.tuples(
    st.just("start"), st.sampled_from(IDS), st.sampled_from(PROJECTS), st.sampled_from(PEOPLE), st.integers(1, 3)
)
remove = st.tuples(st.just("remove"), st.sampled_from(IDS))
quotas = st.tuples(st.just("limit"), st.dictionaries(st.sampled_from(PROJECTS), st.integers(0, 6)))
free = st.tuples(st.just("free"), st.sampled_from([*PROJECTS, 1, 2, 3]), st.integers(1, 12))
settle = st.tuples(st.just("settle"))


class Model:
    """The same queue as rows, put in order whole by the scheduler's own function."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.running: dict[str, Running] = {}
        self.limits: dict[str, int] = {}
        self.freed: dict[str | int, int] = {}

    def apply(self, standing: Standing, what: str, *given) -> None:
        if what == "put":
            session_id, at, project, priority, restarts, devices, person = given
            entry = Waiting((at, session_id), session_id, project, priority, restarts, devices, person)
            self.running.pop(session_id, None)
            self.waiting[session_id] = entry
            standing.put(entry)
        elif what == "start":
            session_id, project, person, devices = given
            self.waiting.pop(session_id, None)
            self.running[session_id] = Running(project, project if person is None else person, devices)
            standing.start(session_id, self.running[session_id])
        elif what == "remove":
            self.waiting.pop(given[0], None)
            self.running.pop(given[0], None)
            standing.remove(given[0])
        elif what == "free":
            owner, at = given
            self.freed[owner] = at
            standing.free(owner, at)
        elif what == "limit":
            self.limits = given[0]
            standing.limit_all(given[0])
        else:
            standing.settle()

    def order(self, *more: Waiting) -> list[Turn]:
        used: Counter[str] = Counter()
        for running in self.running.values():
            used[running.project_id] += running.devices
        return turns(
            [*self.waiting.values(), *more],
            running=Counter(running.project_id for running in self.running.values()),
            limits=self.limits, used=used, people=Counter(running.owner for running in self.running.values()),
            freed=self.freed,
        )  # fmt: skip


@pytest.mark.system
@any_speed
@given(
    st.lists(st.one_of(put, put, start, remove, quotas, free, settle), max_size=60), st.sampled_from(PROJECTS),
    st.sampled_from(PEOPLE), st.integers(1, 3),
)  # fmt: skip
def test_every_position_is_that_of_the_schedulers_whole_order(changes, project, person, devices) -> None:
    model, standing = Model(), Standing()
    for change in changes:
        model.apply(standing, *change)
    standing.settle()
    order = model.order()
    assert [standing.position(turn.session_id) for turn in order] == list(range(1, len(order) + 1))
    assert [standing.is_held(turn.session_id) for turn in order] == [turn.is_held for turn in order]
    assert standing.startable() == sum(not turn.is_held for turn in order)
    assert list(standing.next_ids()) == [turn.session_id for turn in order if not turn.is_held]
    assert standing.position("ses_none") is None
    new = Waiting((1 << 60, "ses_new"), "ses_new", project, -9, 0, devices, person)  # the last of its project
    owner = project if person is None else person
    after = [turn.session_id for turn in model.order(new)].index("ses_new") + 1
    assert standing.position_new(project_id=project, owner=owner, devices=devices) == after


def test_a_change_costs_what_it_moves_however_many_wait() -> None:
    """Counted as places that move while one session comes and one starts, of 300 who wait and of 30,000."""

    def moved(people: int) -> int:
        standing = Standing()
        for number in range(people * 3):
            name = f"ses_{number:06}"
            project, person = f"p{number % people}", number % people
            standing.put(Waiting((number, name), name, project, 0, 0, 1, person))
        standing.settle()
        standing.put(Waiting((1 << 50, "ses_new"), "ses_new", "p7", 0, 0, 1, 7))
        places = standing.settle()
        standing.start("ses_000007", Running("p7", 7, 1))
        places += standing.settle()
        assert standing.position("ses_new") == people * 3
        return places

    assert moved(100) == moved(10_000) <= 8


# -- Of the rows ------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time of a process for which every queue is a long one."""
    now = [1000.0]
    monkeypatch.setattr(shown_queue, "SHORT", 0)
    monkeypatch.setattr(shown_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = ShownQueue()
    monkeypatch.setattr(queue, "shown", shown)
    return now


@pytest.fixture
def wholes(monkeypatch) -> list[int]:
    """Each time at which the queue was read whole."""
    read: list[int] = []
    monkeypatch.setattr(shown_queue, "standing_read", lambda: read.append(1) or standing_read())
    return read


def start(session: Session) -> None:
    move(session, QUEUED, SessionState.PROVISIONING)


def move(session: Session, source: SessionState, target: SessionState) -> None:
    session_move(session_id=session.id, source=source, target=target, actor=Actor.RECONCILER)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def whole() -> dict[str, int]:
    return {turn.session_id: place for place, turn in enumerate(queue_order(), start=1)}


def shown_positions() -> dict[str, int]:
    return queue_positions(Session.objects.values_list("id", flat=True))


@pytest.mark.django_db
def test_what_moved_is_read_and_not_the_whole_queue(project, alice, bob, clock, wholes) -> None:
    theirs = project_get(user=bob)
    sessions = [factories.session_make(project, person=alice) for _ in range(6)]
    clock[0] += shown_queue.KEPT_S + 1
    assert shown_positions() == whole()
    wholes.clear()
    start(sessions[0])
    slept = factories.session_make(theirs, person=bob, state=SessionState.SUSPENDED)
    Session.objects.filter(id=slept.id).update(created_at=timezone.now() - timedelta(hours=1))
    slept.refresh_from_db()
    session_wake(session=slept)  # it arrived before all others
    session_move(session_id=sessions[3].id, source=SessionState.QUEUED, target=SessionState.CANCELLED, actor=Actor.USER)
    Project.objects.filter(id=project.id).update(device_quota=3)
    late = factories.session_make(theirs, person=bob)
    clock[0] += shown_queue.KEPT_S + 1
    assert shown_positions() == whole()
    assert queue_waiting() == 4 and sessions[0].id not in shown_positions()
    assert queue_position(session=late) == whole()[late.id]
    assert queue_position_new(project_id=theirs.id, person=bob.pk) == 5
    clock[0] += shown_queue.KEPT_S + 1  # the same moves are read again, and change nothing
    assert shown_positions() == whole() and not wholes


@pytest.mark.system
@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(3))
def test_what_starts_from_a_long_queue_is_what_the_whole_order_says(project, alice, bob, clock, wholes, seed) -> None:
    chance, theirs = random.Random(seed), project_get(user=bob)

    def make() -> None:
        of, who = chance.choice([(project, alice), (theirs, bob), (theirs, alice), (theirs, None)])
        factories.session_make(of, person=who, devices=chance.choice([1, 1, 2]))

    def end() -> None:
        for running in Session.objects.filter(state=SessionState.PROVISIONING).order_by("?")[:1]:
            move(running, SessionState.PROVISIONING, chance.choice([SessionState.FAILED, QUEUED]))

    def cancel() -> None:
        move(Session.objects.filter(state=QUEUED).order_by("?")[0], QUEUED, SessionState.CANCELLED)

    def limit() -> None:
        Project.objects.filter(id=theirs.id).update(device_quota=chance.choice([None, 2, 4]))

    for _ in range(8):
        make()
    queue_next(slots={HERE: 1})
    wholes.clear()
    for _ in range(40):
        chance.choice([make, make, make, end, end, cancel, limit])()
        make()
        free = chance.randint(1, 3)
        order = [turn.session_id for turn in queue_order() if not turn.is_held]
        assert queue_next(slots={HERE: free}) == order[:free]
        for session_id in order[: chance.randint(0, free)]:
            start(Session.objects.get(id=session_id))
    assert not wholes


@pytest.mark.django_db
def test_what_went_or_changed_without_a_move_takes_nobodys_place_at_the_start(project, bob, clock, wholes) -> None:
    theirs = project_get(user=bob)
    gone, larger, last = [factories.session_make(each) for each in (theirs, project, project)]
    assert queue_next(slots={HERE: 3}) == [gone.id, larger.id, last.id]
    wholes.clear()
    theirs.delete()
    assert queue_next(slots={HERE: 1}) == [larger.id]
    Project.objects.filter(id=project.id).update(device_quota=1)
    Session.objects.filter(id=larger.id).update(devices=2)
    assert queue_next(slots={HERE: 1}) == [last.id] and not wholes


@pytest.mark.django_db(transaction=True)
def test_a_start_waits_for_the_whole_queue_where_too_much_has_moved(project, clock, wholes, monkeypatch) -> None:
    sessions = [factories.session_make(project) for _ in range(5)]
    queue_next(slots={HERE: 1})
    monkeypatch.setattr(shown_queue, "MOST_MOVES", 2)
    for session in sessions[:3]:
        start(session)
    wholes.clear()
    assert queue_next(slots={HERE: 1}) == [sessions[3].id] and wholes


@pytest.mark.django_db(transaction=True)
def test_a_move_that_is_seen_late_is_taken(project, clock, wholes) -> None:
    sessions = [factories.session_make(project) for _ in range(3)]
    wholes.clear()
    clock[0] += shown_queue.OVERLAP_S + 1
    shown_positions()  # whole once more: what was numbered before the first reading is committed by now
    assert wait_until(lambda: wholes and "queue-standing" not in threads(), timeout_s=25)
    start(sessions[0])
    hidden = EventRecord.objects.filter(session_id=sessions[0].id).order_by("id").last()
    EventRecord.objects.filter(id=hidden.id).update(kind="away")  # of a transaction that is not committed yet
    start(sessions[1])
    clock[0] += shown_queue.KEPT_S + 1
    assert sessions[0].id in shown_positions() and sessions[1].id not in shown_positions()
    EventRecord.objects.filter(id=hidden.id).update(kind="state")
    clock[0] += shown_queue.KEPT_S + 1
    assert shown_positions() == whole() == {sessions[2].id: 1}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pause_s", [shown_queue.STALE_S + 1, shown_queue.KEPT_S + 1])
def test_after_long_and_with_many_moves_it_is_read_whole(project, clock, wholes, monkeypatch, pause_s) -> None:
    sessions = [factories.session_make(project) for _ in range(4)]
    clock[0] += shown_queue.KEPT_S + 1
    shown_positions()
    wholes.clear()
    if pause_s < shown_queue.STALE_S:
        monkeypatch.setattr(shown_queue, "MOST_MOVES", 2)
    for session in sessions[:3]:
        start(session)
    clock[0] += pause_s
    shown_positions()
    assert wait_until(lambda: wholes and shown_positions() == {sessions[3].id: 1}, timeout_s=25)


@pytest.mark.django_db
def test_a_short_queue_is_read_for_every_question(project, monkeypatch, wholes) -> None:
    sessions = [factories.session_make(project) for _ in range(3)]
    wholes.clear()
    for waiting in (3, 2):
        assert shown_positions() == whole() and len(whole()) == waiting
        start(sessions[waiting - 1])
    assert len(wholes) == 2
