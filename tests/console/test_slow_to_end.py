"""Runtimes that do not end though they were killed: no session is blamed for them, and none waits
without words.
"""

from datetime import timedelta

import pytest

from console.live.models import EventRecord
from console.scheduling import reconcile
from console.scheduling.launchers.protocol import SlowToEnd
from console.scheduling.session_notes import AwayNotes
from console.scheduling.starts import QueuedStarts
from console.sessions import services
from support.reconciler_world import GIB, READY, state_of
from tinkerscript.wire.config import HERE
from tinkerscript.wire.sessions import SessionState


def said_of(session):
    rows = EventRecord.objects.filter(session_id=session.id, data__name="launcher_away")
    return [event.data["reason"] for event in rows]


@pytest.mark.system
def test_an_earlier_runtime_that_is_slow_to_end_costs_no_restart(world, project, caplog):
    session = world.session(project)
    world.launcher.slow = {"start"}
    world.tick(120)
    assert (state_of(session), session.restarts) == (SessionState.QUEUED, 0)
    moves = EventRecord.objects.filter(session_id=session.id, kind="state")
    assert [move.data["to"] for move in moves] == ["queued", "provisioning", "queued", "queued"], (
        "the last says why"
    )
    assert len(said_of(session)) == caplog.text.count("slow to end") == 1
    world.launcher.slow = set()
    world.tick(60)
    assert (state_of(session), session.restarts) == (SessionState.PROVISIONING, 0)


@pytest.mark.system
def test_a_session_behind_a_runtime_that_does_not_die_waits_in_the_queue_and_says_so_once(
    world, project, caplog
):
    session = world.ready(project)
    world.launcher.die()
    world.launcher.slow = {"start"}
    before = EventRecord.objects.filter(session_id=session.id).count()
    world.tick(200)
    assert (state_of(session), session.restarts) == (SessionState.QUEUED, 1)
    assert "slow to end" in session.phase
    events = EventRecord.objects.filter(session_id=session.id).order_by("id")[before:]
    kinds = [
        (event.data.get("from"), event.data.get("to"), event.data.get("name")) for event in events
    ]
    assert kinds == [
        ("ready", "queued", None),
        ("queued", "queued", None),
        (None, None, "launcher_away"),
    ]
    asked = world.launcher.asked
    world.tick(120)
    assert world.launcher.asked - asked <= 2, "less and less often"
    world.launcher.slow = set()
    world.tick(61)
    assert (state_of(session), session.restarts) == (SessionState.PROVISIONING, 1)


def test_of_a_session_that_was_ended_while_it_waited_nothing_is_kept_in_mind(
    world, project
) -> None:
    session = world.ready(project)
    world.launcher.die()
    world.launcher.slow = {"start"}
    world.tick(3)
    starts = QueuedStarts({HERE: world.launcher}, known=(), warm=None, disk_free=lambda: GIB << 7)
    with pytest.raises(SlowToEnd):
        starts.start(session.id)
    notes = AwayNotes()
    notes.note(session.id, "slow", world.now)
    assert session.id in starts.later
    services.session_stop(project=project, session_id=session.id)
    starts.begin_tick()
    notes.forget_ended()
    later = world.now + timedelta(seconds=1)
    assert starts.later == {} and notes.note(session.id, "slow", later) == timedelta(0)


@pytest.mark.system
def test_a_runtime_that_does_not_die_is_told_once_and_in_the_end_to_a_person(
    world, project, caplog
):
    session = world.ready(project)
    services.session_stop(project=project, session_id=session.id)
    world.tick()
    world.launcher.slow, alive = {"stop"}, world.launcher.alive
    world.launcher.alive = {}
    world.tick(60)
    assert state_of(session) == SessionState.STOPPING
    assert (
        len(said_of(session)) == caplog.text.count("slow to end") == 1
        and not session.alerts.exists()
    )
    world.tick(300, step_s=5.0)
    (alert,) = session.alerts.all()
    assert (alert.rule, alert.over_at) == (
        "stuck",
        None,
    ) and "nothing could be done about its runtime" in alert.text
    world.launcher.slow, world.launcher.alive = set(), alive
    world.launcher.die()
    world.tick(1)
    alert.refresh_from_db()
    assert state_of(session) == SessionState.STOPPED and alert.over_at is not None


def test_a_runtime_that_does_not_end_in_its_time_leaves_its_place_to_another_session(
    world, project, monkeypatch
) -> None:
    assert reconcile.UNENDED_DEADLINE.total_seconds() == 600
    monkeypatch.setattr(reconcile, "UNENDED_DEADLINE", timedelta(seconds=20))
    behind, next_one = world.ready(project), world.session(project)
    world.launcher.die()
    world.launcher.slow = {"start"}
    world.tick(15, step_s=5.0)
    assert (state_of(behind), state_of(next_one)) == (SessionState.QUEUED, SessionState.QUEUED)
    world.tick(15, step_s=5.0)
    assert state_of(behind) == SessionState.FAILED and behind.failure["code"] == "runtime_unended"
    world.launcher.slow = set()
    world.tick(10, step_s=5.0)
    assert state_of(next_one) == SessionState.PROVISIONING


@pytest.mark.system
def test_a_runtime_that_never_ends_costs_its_session_the_place_after_ten_minutes(
    world, project
) -> None:
    """Queued behind an earlier one, stuck, and stopping: each way in which a place could be kept
    for ever.
    """
    behind, next_one = world.ready(project), world.session(project)
    world.launcher.die()
    world.launcher.slow = {"start"}
    world.tick(560, step_s=5.0)
    assert (state_of(behind), state_of(next_one)) == (SessionState.QUEUED, SessionState.QUEUED)
    world.tick(100, step_s=5.0)
    assert state_of(behind) == SessionState.FAILED and behind.failure["code"] == "runtime_unended"
    assert (
        "has not ended for 60" in behind.failure["cause"]
        and "slow to end" in behind.failure["cause"]
    )
    world.launcher.slow = set()
    world.tick(61)
    assert state_of(next_one) == SessionState.PROVISIONING, "the place is another's"

    world.beat(READY)
    services.session_stop(project=project, session_id=next_one.id)
    last = world.session(project)
    world.launcher.slow = {"stop"}
    world.tick(800, step_s=10.0)
    assert (state_of(next_one), state_of(last)) == (SessionState.STOPPED, SessionState.PROVISIONING)
    assert next_one.launch_handle, (
        "it is tried again, and has its devices, until its runtime is gone"
    )
    world.launcher.slow = set()
    world.tick(1)
    next_one.refresh_from_db()
    assert next_one.launch_handle is None
    world.launcher.slow = {"stop"}
    world.tick(1600, step_s=10.0)
    assert state_of(last) == SessionState.FAILED and last.failure["code"] == "runtime_unended", (
        "it was stuck"
    )
