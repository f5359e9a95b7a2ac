"""Episodes go by age: of sessions that ended long ago, everywhere, and whatever a kill left is
found again.
"""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.errors import StorageUnavailable
from console.live.models import EventRecord
from console.object_store import client as object_store
from console.sessions.episodes.models import EpisodeAnnotation, EpisodeTextBlock
from console.sessions.episodes.text_blocks import block_remake
from console.sessions.models import (
    ArchivePart,
    Checkpoint,
    EpisodePack,
    EpisodeRecord,
    Session,
    Upload,
)
from console.sessions.runtime import episode_expiry
from console.sessions.runtime.episode_expiry import episodes_expire
from console.sessions.runtime.session_turn import Turn, session_turn
from console.sessions.tasks.models import QueuedTask
from support import factories
from support.kept_episodes import ended_make
from tinkerscript.wire.sessions import SessionState

OF_EPISODES = (
    EpisodeRecord,
    EpisodePack,
    EpisodeAnnotation,
    EpisodeTextBlock,
    ArchivePart,
    QueuedTask,
    Upload,
)


@pytest.fixture
def old(project, alice, any_store, tmp_path: Path, settings) -> Session:
    """A session with episodes everywhere that ended eleven days ago; episodes are kept for ten."""
    settings.EPISODE_DAYS = 10
    session = ended_make(project, alice, tmp_path)
    block_remake(session, 0)
    QueuedTask.objects.create(session=session, name="task", tries=1)
    object_store.multipart_open(f"sessions/{session.id}/episodes/unfinished")
    object_store.put(f"sessions/{session.id}/checkpoints/c/weights", b"w")
    Checkpoint.objects.create(session=session, kind="model", state="committed", ordered=True)
    aged(session, 11)
    return session


def aged(session: Session, days: int, **fields: object) -> None:
    since = timezone.now() - timedelta(days=days)
    Session.objects.filter(id=session.id).update(
        state_since=since, accounting={"begun": 3}, **fields
    )


def rows_of(session: Session) -> dict[str, int]:
    found = {model.__name__: model.objects.filter(session=session).count() for model in OF_EPISODES}
    return {name: number for name, number in found.items() if number}


def objects_of(session: Session) -> list[str]:
    return [key.split("/", 2)[2] for key in object_store.keys_under(f"sessions/{session.id}/")]


def removed(session: Session) -> list[dict]:
    rows = EventRecord.objects.filter(session_id=session.id).values_list("data", flat=True)
    return [data for data in rows if data.get("name") == "episodes_removed"]


@pytest.mark.smoke
def test_episodes_of_a_session_that_ended_long_ago_go_everywhere_and_what_was_learned_stays(
    old, settings
) -> None:
    assert set(rows_of(old)) == {model.__name__ for model in OF_EPISODES}
    episodes_expire()
    assert rows_of(old) == {}
    assert (
        objects_of(old) == ["checkpoints/c/weights"]
        and Checkpoint.objects.filter(session=old).exists()
    )
    assert not list(object_store.multipart_list(f"sessions/{old.id}/"))
    assert not list((settings.DATA / "runtimes" / old.id).iterdir())
    old.refresh_from_db()
    assert old.journal is None and old.episodes_removed_at is not None
    assert removed(old) == [{"name": "episodes_removed", "after_days": 10}]
    with CaptureQueriesContext(connection) as captured:
        episodes_expire()
    assert len(captured) == 1, "a session whose episodes went is not looked at again"


@pytest.mark.parametrize(
    "kept",
    [
        {"days": 9},
        {"days": 11, "state": SessionState.SUSPENDED},
        {"days": 11, "state": SessionState.READY},
        {"days": 11, "launch_handle": {"pid": 1}},
    ],
    ids=["ended_lately", "suspended", "running", "its_runtime_is_ending"],
)
def test_nobody_else_loses_an_episode(old, kept) -> None:
    aged(old, **kept)
    before = rows_of(old), objects_of(old)
    episodes_expire()
    assert (rows_of(old), objects_of(old), removed(old)) == (*before, [])


def test_without_the_setting_none_goes(old, settings) -> None:
    settings.EPISODE_DAYS = 0
    before = rows_of(old), objects_of(old)
    episodes_expire()
    assert (rows_of(old), objects_of(old)) == before


class Killed(BaseException):
    """What a kill of the process is to the code that runs."""


@pytest.mark.parametrize("survives", range(7))
def test_a_removal_that_was_killed_leaves_no_object_without_a_row_and_is_finished(
    old, monkeypatch, survives
) -> None:
    renew, calls = Turn.renew, []

    def dying(turn: Turn) -> None:
        if len(calls) == survives:
            raise Killed
        calls.append(1)
        renew(turn)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Turn, "renew", dying)
        episodes_expire()
    old.refresh_from_db()
    assert old.episodes_removed_at is None, "it says so last"
    left = objects_of(old)
    assert EpisodePack.objects.filter(session=old).exists() or left == ["checkpoints/c/weights"]
    episodes_expire()
    assert (
        rows_of(old) == {}
        and objects_of(old) == ["checkpoints/c/weights"]
        and len(removed(old)) == 1
    )


def test_a_killed_removal_between_store_and_rows_leaves_the_rows(old, monkeypatch) -> None:
    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(episode_expiry, "_rows_remove", killed)
        episodes_expire()
    assert (
        objects_of(old) == ["checkpoints/c/weights"]
        and EpisodeRecord.objects.filter(session=old).count() == 3
    )
    episodes_expire()
    assert rows_of(old) == {}


def test_a_store_that_is_away_keeps_the_rows_until_it_is_back(old, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise StorageUnavailable("away")

    before = rows_of(old)
    with monkeypatch.context() as patch:
        patch.setattr(object_store, "delete", away)
        episodes_expire()
    before.pop("Upload")
    assert rows_of(old) == before and removed(old) == []
    episodes_expire()
    assert rows_of(old) == {}


def test_it_waits_for_an_erasure_and_passes_on_to_the_next_session(old, project) -> None:
    other = factories.session_make(project, state=SessionState.STOPPED)
    EpisodeRecord.objects.create(session=other, episode_id="e", seq=1, fate="trained", begun_at=0)
    aged(other, 10)
    with session_turn(old.id):
        episodes_expire()
    assert rows_of(old) and not rows_of(other)
    episodes_expire()
    assert not rows_of(old)


def test_a_round_ends_in_time_and_statements_are_bounded(
    project, settings, monkeypatch, s3
) -> None:
    settings.EPISODE_DAYS = 10
    session = factories.session_make(project, state=SessionState.STOPPED)
    rows = [
        EpisodeRecord(session=session, episode_id=f"e{n}", seq=n, fate="trained", begun_at=0)
        for n in range(25)
    ]
    EpisodeRecord.objects.bulk_create(rows)
    aged(session, 11)
    monkeypatch.setattr(episode_expiry, "AT_ONCE", 10)
    with CaptureQueriesContext(connection) as captured:
        episodes_expire()
    assert rows_of(session) == {}
    assert (
        sum(query["sql"].startswith('DELETE FROM "console_episoderecord"') for query in captured)
        == 3
    )
    EpisodeRecord.objects.bulk_create(rows)
    Session.objects.filter(id=session.id).update(episodes_removed_at=None)
    monkeypatch.setattr(episode_expiry, "ROUND_S", -1.0)
    for _ in range(2):
        episodes_expire()
    assert rows_of(session), "its time was over before a row went"
    monkeypatch.setattr(episode_expiry, "ROUND_S", 10.0)
    episodes_expire()
    assert rows_of(session) == {}


def test_the_look_for_sessions_uses_an_index_and_reads_no_table_whole(
    project, settings, db
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL reads a table of a few rows whole")
    settings.EPISODE_DAYS = 10
    with CaptureQueriesContext(connection) as captured:
        episodes_expire()
    (query,) = captured.captured_queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}".replace("%", "%%"), None)
        assert "session_expiring" in json.dumps(cursor.fetchall())
