"""A Tinker client that stays away keeps its runtime only while nobody waits for the place."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from console.live.models import EventRecord
from console.scheduling.absent_clients import ABSENT_S, absent_clients_give_way
from console.sessions.models import Session
from console.sessions.services import route_get
from console.tinker.models import TinkerRuntime, TinkerSession
from console.users.models import Project
from support.factories import BASE_MODEL
from support.reconciler_world import READY, World
from tinkerscript.wire.sessions import SessionState


@pytest.fixture
def world(db, monkeypatch):
    world = World()
    monkeypatch.setattr(timezone, "now", lambda: world.now)
    monkeypatch.setattr(settings, "MAX_RUNTIMES", 2)
    return world


def client_make(world, project, **fields) -> Session:
    """A Tinker client whose runtime is ready, and which has just sent a heartbeat."""
    session = world.ready(project, idle_suspend_s=86_400)
    made = TinkerSession.objects.create(project=project, **fields)
    TinkerRuntime.objects.create(tinker_session=made, base_model=BASE_MODEL, session=session)
    return session


def is_asked_to_go(session) -> bool:
    session.refresh_from_db()
    return session.desired == "suspend"


def silent(session, since) -> None:
    TinkerSession.objects.filter(runtimes__session=session).update(heartbeat_at=since)
    Session.objects.filter(id=session.id).update(last_activity_at=since)


def beat(world, session) -> None:
    TinkerSession.objects.filter(runtimes__session=session).update(heartbeat_at=world.now)


@pytest.mark.smoke
def test_the_client_that_is_away_longest_gives_way_to_one_that_waits_and_is_woken_by_its_next_request(
    world, project
):
    first, second = client_make(world, project), client_make(world, project)
    world.tick(30, beat=READY)
    beat(world, second)
    world.tick(ABSENT_S + 5, beat=READY)
    assert not is_asked_to_go(first) and not is_asked_to_go(second), "nobody waits"
    waiting = world.session(project)
    world.tick(2, beat=READY)
    assert is_asked_to_go(first) and not is_asked_to_go(second), "one goes for the one that waits"
    event = EventRecord.objects.filter(session_id=first.id, kind="event").latest("id").data
    assert event["name"] == "suspend_requested" and "no heartbeat for" in event["reason"]
    handle = first.launch_handle["launch"]
    del world.launcher.alive[handle]
    world.launcher.ends[handle] = 0
    world.tick(2, beat=READY)
    assert (Session.objects.get(id=first.id).state, Session.objects.get(id=waiting.id).state) == (
        SessionState.SUSPENDED, SessionState.READY,
    )  # fmt: skip
    assert TinkerSession.objects.get(runtimes__session=first).finished is None
    assert route_get(session_id=first.id).state == SessionState.QUEUED, "the client is back"


@pytest.mark.system
def test_a_client_that_beats_or_works_or_is_of_the_endpoints_keeps_its_place(world, project):
    beating = client_make(world, project)
    others = client_make(world, project, is_of_endpoints=True)
    world.session(project)
    for _ in range(8):
        world.tick(10, beat=READY)
        beat(world, beating)
    assert not is_asked_to_go(beating) and not is_asked_to_go(others)
    Session.objects.filter(id=beating.id).update(last_activity_at=world.now + timedelta(seconds=50))
    world.tick(ABSENT_S + 30)
    assert not is_asked_to_go(beating), "its requests are signs of life too"


def test_a_client_whose_requests_come_and_one_of_the_endpoints_is_not_absent(
    world, project, monkeypatch
):
    monkeypatch.setattr(settings, "MAX_RUNTIMES", 3)
    works, endpoints = (
        client_make(world, project),
        client_make(world, project, is_of_endpoints=True),
    )
    absent = client_make(world, project)
    for _ in range(2):
        world.session(project)
    long_ago = world.now - timedelta(hours=1)
    for each in (works, endpoints, absent):
        silent(each, long_ago)
    Session.objects.filter(id=works.id).update(last_activity_at=world.now)
    absent_clients_give_way(now=world.now, judging_since=long_ago)
    assert [is_asked_to_go(each) for each in (works, endpoints, absent)] == [False, False, True]


@pytest.mark.system
def test_a_session_that_its_quota_holds_back_takes_no_place_and_silence_of_the_server_is_no_absence(
    world, project
):
    client = client_make(world, project)
    held = Project.objects.create(name="held")
    world.session(held)
    Project.objects.filter(id=held.id).update(device_quota=0)
    world.tick(ABSENT_S + 5, beat=READY)
    assert not is_asked_to_go(client)
    other = client_make(world, project)
    beat(world, client)
    beat(world, other)
    world.session(project)
    world.now += timedelta(hours=1)  # the server was stopped meanwhile, and took no heartbeats
    world.tick(5, beat=READY)
    assert not is_asked_to_go(client) and not is_asked_to_go(other)
    world.tick(ABSENT_S, beat=READY)
    assert is_asked_to_go(client) or is_asked_to_go(other)


def test_a_session_whose_runtime_keeps_dying_takes_no_place_before_it_may_start(world, project):
    first, second = client_make(world, project), client_make(world, project)
    waits = world.session(project)
    Session.objects.filter(id=waits.id).update(restarts=30)
    silent(first, world.now - timedelta(hours=1))
    silent(second, world.now - timedelta(hours=1))
    now, judging_since = world.now, world.now - timedelta(hours=1)
    absent_clients_give_way(now=now, judging_since=judging_since)
    assert not is_asked_to_go(first) and not is_asked_to_go(second)
    absent_clients_give_way(now=now + timedelta(hours=1), judging_since=judging_since)
    assert is_asked_to_go(first) + is_asked_to_go(second) == 1


def test_a_runtime_that_two_clients_share_stays_while_one_of_them_is_there(world, project):
    shared = client_make(world, project)
    client_make(world, project)
    absent = TinkerSession.objects.get(runtimes__session=shared)
    present = TinkerSession.objects.create(project=project)
    TinkerRuntime.objects.create(tinker_session=present, base_model=BASE_MODEL, session=shared)
    world.tick(30, beat=READY, step_s=10)
    world.session(project)
    for others_beat in (True, False):
        for _ in range(5):
            world.tick(ABSENT_S / 3, beat=READY, step_s=10)
            fresh = TinkerSession.objects.exclude(id=absent.id)
            (fresh if others_beat else fresh.exclude(id=present.id)).update(heartbeat_at=world.now)
        world.tick(1, beat=READY)
        assert is_asked_to_go(shared) != others_beat
