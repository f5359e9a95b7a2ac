"""Reading a session: status, record, episodes, accounting, checkpoints."""

import threading

import pytest
from sdk.http_parts import not_ready

from support.waiting import wait_until
from tinkerscript import CheckpointFailed, InvalidRequest, SessionFailed, WaitTimeout
from tinkerscript.wire.reading.calls import CallView


def fill(server, count):
    for number in range(count):
        server.add_event("metric" if number % 2 else "log", {"n": number})


def test_events_come_in_order_over_pages_from_the_cursor(server, session):
    fill(server, 10)
    events = list(session.events())
    assert [e.data["n"] for e in events] == list(range(10))
    assert [e.data["n"] for e in session.events(after=events[6].cursor)] == [7, 8, 9]


def test_events_are_filtered_by_one_or_several_kinds(server, session):
    fill(server, 10)
    server.add_event("event", {"n": 10})
    assert [e.data["n"] for e in session.events(kinds=["metric"])] == [1, 3, 5, 7, 9]
    assert [e.data["n"] for e in session.events(kinds={"metric", "event"})] == [1, 3, 5, 7, 9, 10]
    assert list(session.events(kinds=[])) == []


def test_unknown_kind_is_refused(session):
    with pytest.raises(InvalidRequest, match="metrics"):
        list(session.events(kinds=["metrics"]))


def test_following_sees_new_events_at_once_and_ends_with_the_session(server, session):
    seen = []

    def follow():
        seen.extend(session.events(follow=True))

    following = threading.Thread(target=follow)
    following.start()
    wait_until(lambda: server.seen("GET .*/events"))
    fill(server, 5)
    server.set_state(session.id, "stopped")
    server.add_event("log", {"n": 99})
    session_over = threading.Timer(0, lambda: server.add_event("log", {"n": 100}))
    session_over.start()
    following.join(30)
    assert not following.is_alive()
    assert [e.kind for e in seen[:6]] == ["log", "metric", "log", "metric", "log", "state"]
    assert seen[-1].data["n"] == 100


def test_following_survives_a_restart_and_ends_at_close(server, session):
    seen = []
    following = threading.Thread(target=lambda: seen.extend(session.events(follow=True)))
    following.start()
    wait_until(lambda: server.seen("GET .*/events"))
    server.stop()
    server.start()
    fill(server, 3)
    wait_until(lambda: len(server.seen("GET .*/events")) >= 3)
    session.close(stop=False)
    following.join(18)  # the server would hold its long poll for 20 s
    assert not following.is_alive()
    assert [e.data["n"] for e in seen] == [0, 1, 2]


def test_episodes_and_accounting(server, session):
    for number in range(5):
        session.begin_episode(task=str(number))
        session.end_episode(float(number))
    session.begin_episode(task="open")
    assert [e.task for e in session.episodes()] == ["open", "4", "3", "2", "1", "0"]
    accounting = session.accounting()
    assert (accounting.begun, accounting.open, accounting.waiting) == (6, 1, 5)
    assert accounting.balances


def test_calls_of_an_episode_come_over_pages_with_one_report(server, session):
    numbers = {"begun_at": 1.0, "ended_at": 2.0, "messages_from": 0}
    nothing = dict.fromkeys(["agent", "continues", "drift"])
    lists = {"messages": [], "prompt_token_ids": [1], "completions": []}
    server.calls = [
        CallView(id=f"call_{n}", status="completed", options={}, **numbers, **nothing, **lists)
        for n in range(5)
    ]
    found = session.episode_calls("ep_1")
    assert [call.id for call in found.items] == [f"call_{n}" for n in range(5)]
    assert (found.report.calls, found.next_cursor) == (5, None)
    assert len(server.seen("GET .*/ep_1/calls")) == 3


def test_reading_waits_for_a_session_that_restarts(server, session):
    server.fail("GET .*/accounting", times=2, answer=not_ready())
    assert session.accounting().begun == 0


def test_save_checkpoint_waits_until_it_is_committed(server, session):
    made = session.save_checkpoint()
    assert (made.kind, made.state) == ("state", "committed")
    assert [c.id for c in session.checkpoints()] == [made.id]


def test_checkpoint_that_fails_gives_the_reason(server, session):
    server.checkpoint_states = ["requested", "failed"]
    with pytest.raises(CheckpointFailed, match="on fire"):
        session.save_checkpoint()


def test_checkpoint_of_a_session_that_fails_meanwhile_does_not_wait_for_ever(server, session):
    server.checkpoint_states = ["requested"]
    server.set_state(
        session.id, "failed", failure={"code": "engine_dead", "cause": "killed", "hint": ""}
    )
    with pytest.raises(SessionFailed, match="engine_dead"):
        session.save_checkpoint()


def test_checkpoint_that_takes_too_long_is_a_typed_error(server, session):
    server.checkpoint_states = ["requested"]
    with pytest.raises(WaitTimeout, match="requested"):
        session.save_checkpoint(timeout_s=0.01)
