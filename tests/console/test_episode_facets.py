"""What a list of episodes holds, counted by the database for the filter that the list has."""

import random
import sys

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.errors import NotFound
from console.sessions.episodes import one_reading
from console.sessions.episodes.facets import episode_facets
from console.sessions.episodes.one_reading import MOST_REWARDS
from console.sessions.episodes.selectors import EpisodeFilter, episode_list
from console.sessions.episodes.text_blocks import blocks_extend
from console.sessions.models import EpisodeRecord, Session
from console.users.models import Project
from support.factories import session_make
from tinkerscript.wire.reading.facets import BUCKETS, MAX_TASKS, EpisodeFacets
from tinkerscript.wire.reading.trajectories import EpisodeFate as Fate

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(project) -> Session:
    return session_make(project)


def save(session: Session, rewards: list[float | None], **fields) -> None:
    before = EpisodeRecord.objects.filter(session=session).count()
    EpisodeRecord.objects.bulk_create(
        EpisodeRecord(
            session=session, episode_id=f"epi_{before + at}", seq=before + at, reward=reward, begun_at=1.0,
            **{"fate": Fate.TRAINED} | fields,
        )
        for at, reward in enumerate(rewards)
    )  # fmt: skip


def facets(session: Session, **only) -> EpisodeFacets:
    return episode_facets(
        project=session.project, session_id=session.id, only=EpisodeFilter(**only)
    )


def test_every_bucket_asks_for_exactly_its_episodes(session) -> None:
    save(session, [at / 7 - 3 for at in range(100)] + [None, None, 4.25, 4.25])
    told = facets(session)
    assert (told.episodes, sum(bucket.count for bucket in told.rewards)) == (104, 102)
    assert 1 < len(told.rewards) <= BUCKETS
    for bucket in told.rewards:
        only = EpisodeFilter(reward_min=bucket.lowest, reward_max=bucket.highest)
        page, more = episode_list(
            project=session.project, session_id=session.id, only=only, limit=200
        )
        assert (len(page), more) == (bucket.count, None)
    assert [bucket.lowest for bucket in told.rewards] == sorted(
        bucket.lowest for bucket in told.rewards
    )


LARGEST = sys.float_info.max


@pytest.mark.parametrize(
    "rewards, counts",
    [
        ([], []),
        ([None], []),
        ([0.5] * 3, [3]),
        ([0.0, 1.0, 1.0], [1, 2]),
        ([-LARGEST, 0.0, LARGEST], [1, 1, 1]),
        ([5e-324, 0.0], [2]),
        ([LARGEST, -1.0], [1, 1]),
        ([5e-324, LARGEST], [1, 1]),
        ([-LARGEST] * 3, [3]),
        ([1e-300, -1e-300], [1, 1]),
    ],
)
def test_rewards_of_any_size_have_their_buckets_and_their_mean(session, rewards, counts) -> None:
    """On PostgreSQL too, which refuses numbers that are too large or too small on the way."""
    save(session, rewards)
    told = facets(session)
    assert [bucket.count for bucket in told.rewards] == counts
    given = [reward for reward in rewards if reward is not None]
    mean = max(-LARGEST, sum(reward / len(given) for reward in given)) if given else None
    assert told.reward_mean == (mean and pytest.approx(mean, rel=1e-8, abs=1e-260))


@pytest.mark.parametrize("most", [MOST_REWARDS, 1], ids=["one reading", "two"])
@pytest.mark.parametrize("seed", range(5))
def test_episodes_whose_rows_are_read_are_counted_as_by_the_index(
    session, monkeypatch, most: int, seed: int
) -> None:
    """A text, an agent and a version that all have leave everything: the counts are those of
    before.
    """
    monkeypatch.setattr(one_reading, "MOST_REWARDS", most)
    draw = random.Random(seed)
    said = {
        "agents": "|solver|",
        "answer": "100%_done",
        "policy_version_first": 3,
        "policy_version_last": 4,
    }
    for _ in range(60):
        rewards = [
            draw.choice([None, 0.0, 0.5, 1.0, draw.gauss(0, 1), draw.choice([LARGEST, 5e-324])])
        ]
        task, fate = draw.choice([None, "fog", "mist"]), draw.choice(list(Fate))
        save(session, rewards, task=task, fate=fate, eval=draw.random() < 0.3, **said)
    blocks_extend(session, EpisodeRecord.objects.filter(session=session))
    for narrowed in (
        {},
        {"fates": [Fate.TRAINED, Fate.STALE]},
        {"task": "fog"},
        {"task": "fog", "fates": [Fate.EVAL]},
    ):
        expected = facets(session, **narrowed)
        for read in (
            {"agent": "solver"},
            {"text": "100%_DONE"},
            {"version": 4},
            {"agent": "solver", "text": "%_d"},
        ):
            assert facets(session, **narrowed, **read) == expected, (narrowed, read)
    assert facets(session, text="no such words").episodes == 0


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL chooses by its statistics")
def test_rows_that_must_be_read_are_read_once_whatever_their_rewards(session, monkeypatch) -> None:
    """Each of these readings, and each sorting of what was read, is a good part of the 200 ms for
    100,000 episodes.
    """
    monkeypatch.setattr(one_reading, "MOST_REWARDS", 1)
    save(
        session,
        [0.0, 0.5, 1.0],
        task="fog",
        answer="said",
        agents="|a|",
        policy_version_first=0,
        policy_version_last=0,
    )
    for chosen in ({"text": "said"}, {"agent": "a"}, {"version": 0}):
        with CaptureQueriesContext(connection) as asked:
            assert facets(session, **chosen).episodes == 3
        counts = [query["sql"] for query in asked if "COUNT(" in query["sql"]]
        assert len(counts) == 1
        with connection.cursor() as cursor:
            plan = cursor.execute(f"EXPLAIN QUERY PLAN {counts[0]}").fetchall()
        assert sum("console_episoderecord" in str(line) for line in plan) == 1, plan
        assert sum("TEMP B-TREE" in str(line) for line in plan) == 1, plan


def test_each_facet_keeps_its_other_choices_and_has_the_rest_of_the_filter(session) -> None:
    save(session, [1.0, 0.0], task="fog")
    save(session, [1.0], task="fog", fate=Fate.STALE)
    save(session, [0.5], task="mist", fate=Fate.EVAL, eval=True)
    told = facets(session, task="fog", fates=[Fate.TRAINED], reward_min=0.5)
    assert (told.episodes, told.evaluation, told.reward_mean) == (1, 0, 1.0)
    assert told.fates == {Fate.TRAINED: 1, Fate.STALE: 1}
    assert [(each.task, each.count) for each in told.tasks] == [("fog", 1)]
    told = facets(session)
    assert (told.episodes, told.evaluation, told.reward_mean) == (4, 1, 0.625)
    assert [(each.task, each.count) for each in told.tasks] == [("fog", 3), ("mist", 1)]


def test_many_tasks_are_cut_and_counted(session) -> None:
    for at in range(MAX_TASKS + 3):
        save(session, [1.0], task=f"task {at:03}")
    told = facets(session)
    assert [each.task for each in told.tasks] == [f"task {at:03}" for at in range(MAX_TASKS)]
    assert told.tasks_in_all == MAX_TASKS + 3


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL chooses by its statistics")
def test_episodes_are_read_twice_from_an_index_alone(session) -> None:
    """Whatever a list of many episodes is narrowed to, but by a text or a version."""
    save(session, [0.0, 0.5, 1.0], task="fog")
    only = {"task": "fog", "fates": [Fate.TRAINED], "eval": False, "reward_min": 0.25}
    for chosen in ({}, *({name: value} for name, value in only.items())):
        with CaptureQueriesContext(connection) as asked:
            facets(session, **chosen)
        reads = [query["sql"] for query in asked if 'FROM "console_episoderecord"' in query["sql"]]
        assert len(reads) == 2
        with connection.cursor() as cursor:
            plans = [str(cursor.execute(f"EXPLAIN QUERY PLAN {read}").fetchall()) for read in reads]
        assert all("COVERING INDEX" in plan for plan in plans), (chosen, plans)


def test_another_project_is_told_of_nothing(session, bob) -> None:
    save(session, [1.0])
    with pytest.raises(NotFound):
        episode_facets(
            project=Project.objects.get(memberships__user=bob),
            session_id=session.id,
            only=EpisodeFilter(),
        )
