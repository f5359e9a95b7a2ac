"""The end of a runtime's log outlives the runtime, and is searched before and after its end."""

import errno
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from console.live.models import RuntimeLog
from console.scheduling import logs
from console.scheduling.launchers.protocol import LauncherUnavailable
from console.scheduling.retention import expired_remove
from console.sessions.models import Session
from console.sessions.services import session_delete, session_stop
from support import factories
from support.reconciler_world import World


@pytest.fixture
def world(db, monkeypatch) -> World:
    world = World()
    monkeypatch.setattr(timezone, "now", lambda: world.now)
    monkeypatch.setattr(logs, "_launcher", lambda session: world.launcher)
    return world


def ended(world: World, project) -> Session:
    session = world.ready(project)
    session_stop(project=project, session_id=session.id)
    world.tick()
    world.launcher.die(0)
    world.tick()
    session.refresh_from_db()
    assert session.state == "stopped" and session.launch_handle is None
    return session


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **names: object) -> None:
        raise error

    return fail


def test_the_log_is_read_and_searched_after_the_end(world, project, api_key, client_for) -> None:
    session = ended(world, project)
    client, path = client_for(api_key), f"/v1/sessions/{session.id}/logs"
    assert client.get(path, {"lines": 2}).json() == {"lines": ["line 98", "line 99"]}
    assert client.get(path, {"q": "LINE 9", "lines": 3}).json() == {"lines": ["line 97", "line 98", "line 99"]}
    assert client.get(path, {"q": "no such"}).json() == {"lines": []}
    session_delete(project=project, session_id=session.id)
    assert not RuntimeLog.objects.exists()


def test_a_living_runtimes_log_is_searched_beyond_the_lines_that_are_shown(world, project) -> None:
    session = world.ready(project)
    found = logs.session_logs(project=project, session_id=session.id, lines=1, containing="line 1")
    assert found == ["line 19"]


def test_a_log_that_cannot_be_read_or_kept_keeps_no_runtime_from_being_ended(world, project, monkeypatch) -> None:
    for error in (LauncherUnavailable("no log driver"), OSError(errno.ESTALE, "Stale file handle")):
        with monkeypatch.context() as context:
            context.setattr(world.launcher, "logs", failing(error))
            session = ended(world, project)
        assert logs.session_logs(project=project, session_id=session.id, lines=9) == []

    session = world.ready(project)
    monkeypatch.setattr(RuntimeLog.objects, "update_or_create", failing(OperationalError("database or disk is full")))
    world.reconciler.release_all(grace_s=1)
    session.refresh_from_db()
    assert (world.launcher.alive, session.state) == ({}, "queued")


def test_a_log_goes_with_the_record_of_a_session_that_ended_long_ago(project, settings) -> None:
    session = factories.session_make(project, state="stopped")
    RuntimeLog.objects.create(session_id=session.id, lines=b"")
    Session.objects.filter(id=session.id).update(state_since=timezone.now() - timedelta(days=401))
    settings.RECORD_DAYS = 400
    expired_remove()
    assert not RuntimeLog.objects.exists()
