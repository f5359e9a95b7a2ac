"""The end of a runtime's log outlives the runtime, and is searched before and after its end."""

import errno
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from console.live.models import LogChunk
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
    assert client.get(path, {"lines": 2}).json()["lines"] == ["line 98", "line 99"]
    assert client.get(path, {"q": "LINE 9", "lines": 3}).json()["lines"] == [
        "line 97",
        "line 98",
        "line 99",
    ]
    assert client.get(path, {"q": "no such"}).json()["lines"] == []
    session_delete(project=project, session_id=session.id)
    assert not LogChunk.objects.exists()


def test_a_living_runtimes_log_is_searched_beyond_the_lines_that_are_shown(world, project) -> None:
    session = world.ready(project)
    found = logs.session_logs(project=project, session_id=session.id, lines=1, containing="line 1")
    assert found.lines == ["line 19"]


def test_a_reader_goes_on_where_it_was_over_restarts_and_the_end(
    world, project, api_key, client_for, monkeypatch
) -> None:
    session, written = world.ready(project), [f"first {number}" for number in range(30)]
    monkeypatch.setattr(world.launcher, "logs", lambda handle, *, lines: written[-lines:])
    client, path = client_for(api_key), f"/v1/sessions/{session.id}/logs"
    page = client.get(path, {"lines": 2}).json()
    assert page["lines"] == ["first 28", "first 29"] and not page["is_cut"]
    nothing = client.get(path, {"after": page["cursor"]}).json()
    assert nothing["lines"] == [] and not nothing["is_cut"]
    written += ["first 30", "first 31"]
    world.reconciler.release_all(grace_s=1)  # its runtime ends, and another one is started
    world.tick()
    written[:] = [f"second {number}" for number in range(3)]
    more = client.get(path, {"after": page["cursor"], "lines": 3}).json()
    assert more["lines"] == ["first 30", "first 31", "second 0"] and not more["is_cut"]
    rest = client.get(path, {"after": more["cursor"], "q": "2"}).json()
    assert rest["lines"] == ["second 2"]
    # nothing of the second was kept
    Session.objects.filter(id=session.id).update(launch_handle=None, state="stopped")
    assert client.get(path, {"after": rest["cursor"]}).json()["is_cut"]
    refused = client.get(path, {"after": "0"})
    assert refused.status_code == 400 and "no place of a log" in refused.json()["error"]["message"]


def test_the_ends_of_the_last_runtimes_are_kept_and_no_more(db) -> None:
    for number in range(logs.MAX_CHUNKS + 2):
        logs.log_keep(session_id="ses_a", launch=f"ses_a-{number}", lines=["x"])
        logs.log_keep(session_id="ses_b", launch="ses_b-0", lines=[f"{number}"])
    kept = (
        LogChunk.objects.filter(session_id="ses_a").order_by("id").values_list("launch", flat=True)
    )
    assert list(kept) == [f"ses_a-{number}" for number in range(2, logs.MAX_CHUNKS + 2)]
    assert LogChunk.objects.filter(session_id="ses_b").count() == 1


def test_a_log_that_cannot_be_read_or_kept_keeps_no_runtime_from_being_ended(
    world, project, monkeypatch
) -> None:
    for error in (LauncherUnavailable("no log driver"), OSError(errno.ESTALE, "Stale file handle")):
        with monkeypatch.context() as context:
            context.setattr(world.launcher, "logs", failing(error))
            session = ended(world, project)
        assert logs.session_logs(project=project, session_id=session.id, lines=9).lines == []

    session = world.ready(project)
    monkeypatch.setattr(
        LogChunk.objects, "update_or_create", failing(OperationalError("database or disk is full"))
    )
    world.reconciler.release_all(grace_s=1)
    session.refresh_from_db()
    assert (world.launcher.alive, session.state) == ({}, "queued")


def test_a_log_goes_with_the_record_of_a_session_that_ended_long_ago(project, settings) -> None:
    session = factories.session_make(project, state="stopped")
    LogChunk.objects.create(session_id=session.id, launch="a", lines=b"")
    Session.objects.filter(id=session.id).update(state_since=timezone.now() - timedelta(days=401))
    settings.RECORD_DAYS = 400
    expired_remove()
    assert not LogChunk.objects.exists()
