"""The table of moves: what may happen, who may do it, and that a race has one winner."""

import itertools
import threading

import pytest
from django.db import connections

from console.errors import Conflict
from console.live.models import EventRecord
from console.sessions import states
from console.sessions.models import Session
from console.sessions.states import MOVES, Actor, is_allowed
from console.sessions.transitions import session_move
from support import factories
from tinkerscript.wire.sessions import SessionState

TERMINAL = {state for state in SessionState if state.is_terminal}
RESTARTABLE = {SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY}


def test_no_move_leads_out_of_a_terminal_state():
    assert not [move for move in MOVES if move[0] in TERMINAL]


def test_the_lines_in_the_docstring_are_the_table():
    lines = [line.split(" -> ") for line in states.__doc__.splitlines() if " -> " in line]
    drawn = {
        (source.strip(), target) for source, targets in lines for target in targets.split(", ")
    }
    assert drawn == MOVES.keys()


def test_users_and_runtimes_make_these_moves_alone():
    """The rest is the reconciler's: a runtime gives no session a place, and no user says that one
    is ready.
    """
    s = SessionState
    ready = {(s.PROVISIONING, s.LOADING), (s.LOADING, s.READY)}
    assert {move for move, actors in MOVES.items() if Actor.RUNTIME in actors} == ready | {
        (state, s.FAILED) for state in (*RESTARTABLE, s.STOPPING)
    }
    assert {move for move, actors in MOVES.items() if Actor.USER in actors} == {
        (s.SUSPENDED, s.QUEUED), (s.SUSPENDED, s.STOPPED), (s.QUEUED, s.CANCELLED), (s.QUEUED, s.STOPPED),
    }  # fmt: skip


def test_every_other_state_has_a_way_to_an_end():
    for state in set(SessionState) - TERMINAL:
        reached, frontier = set(), {state}
        while frontier:
            reached |= frontier
            frontier = {target for source, target in MOVES if source in frontier} - reached
        assert reached & TERMINAL, state


def test_every_state_can_be_reached_from_queued():
    reached, frontier = set(), {SessionState.QUEUED}
    while frontier:
        reached |= frontier
        frontier = {target for source, target in MOVES if source in frontier} - reached
    assert reached == set(SessionState)


def test_a_runtime_can_neither_queue_nor_end_a_session_but_by_failing():
    targets = {target for (_, target), actors in MOVES.items() if Actor.RUNTIME in actors}
    assert targets == {SessionState.LOADING, SessionState.READY, SessionState.FAILED}


def test_only_the_reconciler_restarts():
    for source in RESTARTABLE:
        assert MOVES[source, SessionState.QUEUED] == {Actor.RECONCILER}


@pytest.mark.smoke
@pytest.mark.parametrize("actor", Actor)
def test_a_move_happens_exactly_when_the_table_allows_it(project, actor):
    """Each of all pairs of states: one session after the other, in the database of one test."""
    for source, target in itertools.product(SessionState, SessionState):
        what = f"{source} -> {target}"
        session = factories.session_make(project, state=source)
        before = EventRecord.objects.filter(session_id=session.id).count()
        if is_allowed(source, target, actor):
            session_move(
                session_id=session.id, source=source, target=target, actor=actor, reason="because"
            )
            expected = target
            last = EventRecord.objects.filter(session_id=session.id).latest("id")
            assert last.data == {"from": source, "to": target, "phase": "", "reason": "because"}, (
                what
            )
        else:
            with pytest.raises(Conflict):
                session_move(session_id=session.id, source=source, target=target, actor=actor)
                pytest.fail(f"{what} by {actor} is not refused")
            expected = source
            assert EventRecord.objects.filter(session_id=session.id).count() == before, what
        session.refresh_from_db()
        assert session.state == expected, what


def test_a_move_from_a_state_that_has_passed_changes_nothing(project):
    session = factories.session_make(project, state=SessionState.CANCELLED)
    with pytest.raises(Conflict):
        session_move(
            session_id=session.id,
            source=SessionState.QUEUED,
            target=SessionState.PROVISIONING,
            actor=Actor.RECONCILER,
            phase="never",
        )
    session.refresh_from_db()
    assert (session.state, session.phase) == (SessionState.CANCELLED, "")


def test_a_move_under_another_lease_changes_nothing(project):
    session, _token = factories.runtime_make(project, SessionState.LOADING)
    with pytest.raises(Conflict):
        session_move(
            session_id=session.id,
            source=SessionState.LOADING,
            target=SessionState.READY,
            actor=Actor.RUNTIME,
            lease_sha256="0" * 64,
        )
    session.refresh_from_db()
    assert session.state == SessionState.LOADING


@pytest.mark.django_db(transaction=True)
def test_of_eight_threads_that_race_exactly_one_moves_the_session():
    session = factories.session_make(factories.user_make("alice").memberships.get().project)
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def race(number: int) -> None:
        try:
            start.wait(25)
            session_move(
                session_id=session.id,
                source=SessionState.QUEUED,
                target=SessionState.PROVISIONING,
                actor=Actor.RECONCILER,
                phase=f"thread {number}",
            )
            outcomes.append(f"thread {number}")
        except Conflict:
            outcomes.append("conflict")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    winners = [outcome for outcome in outcomes if outcome != "conflict"]
    assert len(outcomes) == 8 and len(winners) == 1
    session.refresh_from_db()
    assert session.phase == winners[0]
    moves = EventRecord.objects.filter(session_id=session.id, data__to=SessionState.PROVISIONING)
    assert moves.count() == 1


def test_the_end_of_a_session_takes_its_lease_and_its_pending_checkpoints(project):
    session, _token = factories.runtime_make(project, address="127.0.0.1:1")
    waiting = session.checkpoints.create(kind="model", ordered=True)
    half = session.checkpoints.create(kind="state", state="uploading")
    done = session.checkpoints.create(kind="model", state="committed")
    session_move(
        session_id=session.id,
        source=SessionState.READY,
        target=SessionState.FAILED,
        actor=Actor.RECONCILER,
    )
    session.refresh_from_db()
    assert (session.lease_sha256, session.address) == ("", "")
    states = {
        c.id: (c.state, bool(c.failure))
        for c in Session.objects.get(id=session.id).checkpoints.all()
    }
    assert states == {
        waiting.id: ("failed", True),
        half.id: ("failed", True),
        done.id: ("committed", False),
    }
