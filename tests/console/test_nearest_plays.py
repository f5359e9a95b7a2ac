"""Which task got worse between two versions, where tasks take turns: each is compared at its plays
nearest to them.
"""

import sys

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.errors import NotFound
from console.sessions.episodes.facets import episodes_nearest
from console.sessions.models import EpisodeRecord, Session
from console.users.models import Project
from support.factories import session_make
from tinkerscript.wire.reading.facets import (
    MAX_COMPARED,
    NearestPlays,
    Play,
    is_within,
    nearest_plays,
)
from tinkerscript.wire.reading.trajectories import EpisodeFate as Fate

pytestmark = pytest.mark.django_db
LARGEST = sys.float_info.max


@pytest.fixture
def session(project) -> Session:
    return session_make(project)


def save(
    session: Session, task: str | None, version: int | None, *rewards: float | None, **fields
) -> None:
    before = EpisodeRecord.objects.filter(session=session).count()
    EpisodeRecord.objects.bulk_create(
        EpisodeRecord(
            session=session, episode_id=f"epi_{before + at}", seq=before + at, reward=reward, begun_at=1.0, task=task,
            policy_version_first=version, policy_version_last=version, **{"fate": Fate.TRAINED} | fields,
        )
        for at, reward in enumerate(rewards)
    )  # fmt: skip


def compared(
    session: Session, of: tuple[int, int | None], *, held_out: bool = False
) -> NearestPlays:
    return episodes_nearest(
        project=session.project,
        session_id=session.id,
        held_out=held_out,
        from_version=of[0],
        to_version=of[1],
    )


def rows(found: NearestPlays) -> list[tuple]:
    return [
        (each.task, each.before.version, each.before.reward, each.after.version, each.after.reward)
        for each in found.items
    ]


def test_tasks_of_both_versions_are_compared_by_these_alone_and_what_lost_most_is_first(
    session,
) -> None:
    save(session, "fog", 8, 1.0, 0.5)
    save(session, "fog", 12, 0.25)
    save(session, "mist", 8, 1.0)
    save(session, "mist", 12, 0.0, 0.0)
    save(session, "rain", 9, 1.0)
    save(session, "rain", 11, 0.0)
    found = compared(session, (8, 12))
    assert (found.reach, found.tasks_in_all) == (0, 2)
    assert rows(found) == [("mist", 8, 1.0, 12, 0.0), ("fog", 8, 0.75, 12, 0.25)]
    assert [(each.before.episodes, each.after.episodes) for each in found.items] == [(1, 2), (2, 1)]


def test_tasks_that_take_turns_are_compared_at_their_nearest_plays(session) -> None:
    """Four tasks, one of them each step: versions 8 and 12 are of the same; 8 and 13 share none."""
    for version in range(20):
        save(session, f"task {version % 4}", version, 1 - version / 20)
    assert rows(compared(session, (8, 12))) == [("task 0", 8, 0.6, 12, 0.4)]
    found = compared(session, (8, 13))
    assert found.reach == 4
    assert {(task, before, after) for task, before, _, after, _ in rows(found)} == {
        ("task 0", 8, 12), ("task 1", 9, 13), ("task 2", 10, 14), ("task 3", 7, 15)
    }  # fmt: skip
    assert {(task, before, after) for task, before, _, after, _ in rows(compared(session, (13, 8)))} == {
        ("task 0", 12, 8), ("task 1", 13, 9), ("task 2", 14, 10), ("task 3", 15, 7)
    }  # fmt: skip


def test_plays_however_far_away_are_found(session) -> None:
    save(session, "fog", 8, 1.0)
    save(session, "fog", 5000, 0.0)
    found = compared(session, (8, 12))
    assert (rows(found), found.reach) == ([("fog", 8, 1.0, 5000, 0.0)], None)
    save(session, "fog", 100, 0.5)
    assert (rows(compared(session, (8, 12))), compared(session, (8, 12)).reach) == (
        [("fog", 8, 1.0, 100, 0.5)],
        256,
    )
    assert rows(compared(session, (9000, 9001))) == []  # none was nearer to the second


def test_held_out_and_trained_episodes_are_apart_and_others_are_left_out(session) -> None:
    save(session, "fog", 0, 1.0, None)
    save(session, "fog", 0, 0.0, fate=Fate.EVAL, eval=True)
    save(session, "fog", 1, 0.5, fate=Fate.EVAL, eval=True)
    save(session, "fog", 1, 0.0, fate=Fate.STALE)
    save(session, None, 1, 0.0)
    save(session, "fog", None, 0.0)
    assert rows(compared(session, (0, 1))) == []
    assert rows(compared(session, (0, 1), held_out=True)) == [("fog", 0, 0.0, 1, 0.5)]


def test_the_second_version_is_the_newest_where_none_is_named(session) -> None:
    Session.objects.filter(id=session.id).update(policy_version=3)
    for version, reward in ((0, 1.0), (1, 0.5), (3, 0.25)):
        save(session, "fog", version, reward)
    assert rows(compared(session, (0, None))) == [("fog", 0, 1.0, 3, 0.25)]


def test_rewards_of_any_size_are_compared(session) -> None:
    save(session, "most", 0, LARGEST, LARGEST)
    save(session, "most", 1, -LARGEST)
    save(session, "least", 0, 5e-324)
    save(session, "least", 1, 0.0)
    assert [task for task, *_ in rows(compared(session, (0, 1)))] == ["most", "least"]


def test_many_tasks_are_cut_and_counted(session) -> None:
    for at in range(MAX_COMPARED + 3):
        save(session, f"task {at:03}", 0, 1.0)
        save(session, f"task {at:03}", 1, at / 1000)
    found = compared(session, (0, 1))
    assert (len(found.items), found.tasks_in_all) == (MAX_COMPARED, MAX_COMPARED + 3)
    assert found.items[0].task == "task 000"


def test_the_episodes_of_other_versions_are_not_read(session) -> None:
    save(session, "fog", 8, 1.0)
    save(session, "fog", 12, 0.0)
    with CaptureQueriesContext(connection) as asked:
        compared(session, (8, 12))
    (read,) = [query["sql"] for query in asked if 'FROM "console_episoderecord"' in query["sql"]]
    assert "BETWEEN 8 AND 8" in read and "BETWEEN 12 AND 12" in read


def test_a_play_belongs_to_the_nearer_version_and_the_later_of_two_that_are_as_near() -> None:
    plays = [Play("fog", version, 1, float(version)) for version in (6, 10, 14, 18)]
    (found,) = nearest_plays(plays, (8, 12), None).items
    assert (found.before.version, found.after.version) == (10, 14)
    assert [is_within(version, (8, 12), 2) for version in (5, 6, 10, 14, 15)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_another_project_is_told_of_nothing(session, bob) -> None:
    of = {"held_out": False, "from_version": 0, "to_version": 1}
    with pytest.raises(NotFound):
        episodes_nearest(
            project=Project.objects.get(memberships__user=bob), session_id=session.id, **of
        )
