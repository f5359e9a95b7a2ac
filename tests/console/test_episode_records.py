"""What runtimes report of episodes: kept once each, under the lease alone, and found by every
filter in every order.
"""

import gzip
import json
import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from api.presenters import episode_view
from console.errors import InvalidRequest, NotFound, StaleLease
from console.live.services import event_record
from console.object_store import client as object_store
from console.sessions.checkpoints import removal
from console.sessions.episodes import documents, selectors
from console.sessions.limits import quotas
from console.sessions.models import EpisodePack, EpisodeRecord, Session
from console.sessions.runtime import episode_reports, leases, stored_files, uploads
from console.sessions.services import session_delete
from console.users.models import Project
from support import factories
from support.store_calls import fetch, opening, write
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.reading.facets import bound_of
from tinkerscript.wire.reading.trajectories import EpisodeFate, EpisodeRow, EpisodeRows, EpisodeSort
from tinkerscript.wire.runtime import DocumentPlace

Filter = selectors.EpisodeFilter


@pytest.fixture
def running(project) -> Session:
    """A session with a runtime: the row as the runtime's lease opens it."""
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


def row(number: int, **fields) -> EpisodeRow:
    """An episode that was trained, unless ``fields`` say something else."""
    known = {
        "task": f"task-{number % 3}",
        "fate": "trained",
        "reward": number / 10,
        "begun_at": float(number),
    }
    return EpisodeRow(**({"episode_id": f"epi_{number}", "seq": number, **known} | fields))


def save(session: Session, *rows: EpisodeRow, **fields) -> None:
    episode_reports.rows_save(session=session, body=EpisodeRows(rows=list(rows), **fields))


def numbers(
    session: Session,
    only: Filter = Filter(),
    sort: EpisodeSort = EpisodeSort.NEWEST,
    limit: int = 2,
) -> list:
    """The numbers of all that match, read page by page."""
    found, cursor = [], None
    while True:
        page, cursor = selectors.episode_list(
            project=session.project,
            session_id=session.id,
            only=only,
            sort=sort,
            cursor=cursor,
            limit=limit,
        )
        found += [record.seq for record in page]
        if cursor is None:
            return found


@pytest.mark.parametrize("sort", EpisodeSort)
@pytest.mark.parametrize("only", [Filter(), Filter(task="task-1")])
def test_the_neighbours_of_each_episode_are_those_of_the_list(running, sort, only) -> None:
    save(
        running,
        *(
            row(at, reward=(at * 7 % 4) / 4, sampled_tokens=at % 3, logprob_mean=-at % 2)
            for at in range(9)
        ),
    )
    listed = [None, *(f"epi_{number}" for number in numbers(running, only, sort)), None]
    assert len(listed) > 4
    for before, episode_id, after in zip(listed, listed[1:-1], listed[2:], strict=False):
        where = {"project": running.project, "session_id": running.id, "episode_id": episode_id}
        assert selectors.episode_neighbours(**where, only=only, sort=sort) == (before, after)


def test_an_episode_that_the_list_has_no_place_for_has_no_neighbours(running) -> None:
    save(running, row(1), row(2, reward=None))
    where = {"project": running.project, "session_id": running.id}
    best = {"only": Filter(), "sort": EpisodeSort.BEST}
    assert selectors.episode_neighbours(**where, episode_id="epi_2", **best) == (None, None)
    with pytest.raises(NotFound):
        selectors.episode_neighbours(**where, episode_id="epi_3", **best)


def test_a_row_that_comes_again_replaces_what_was_known_and_keeps_its_pack(running) -> None:
    save(running, row(1, fate="waiting"), row(2))
    pack = EpisodePack.objects.create(session=running, sha256="0" * 64, size_bytes=1)
    EpisodeRecord.objects.filter(episode_id="epi_1").update(pack=pack)
    for _ in range(2):
        save(
            running,
            row(1, fate="trained", trained_step=3, advantage=0.5, agents=["solver", "critic"]),
        )
    record = EpisodeRecord.objects.get(episode_id="epi_1")
    assert (record.fate, record.trained_step, record.advantage, record.pack) == (
        "trained",
        3,
        0.5,
        pack,
    )
    assert record.agents == "|solver||critic|" and EpisodeRecord.objects.count() == 2


def test_what_was_refused_of_an_episodes_calls_stands_with_it(running) -> None:
    call = {"at": 1.0, "status": 400, "path": "POST /messages", "message": "tools[0] has no name."}
    save(running, row(1, refused={"count": 26, "last": [call]}), row(2))
    told, silent = (
        episode_view(EpisodeRecord.objects.get(episode_id=f"epi_{number}")) for number in (1, 2)
    )
    assert (
        told.refused is not None
        and told.refused.count == 26
        and told.refused.last[0].message in told.warning
    )
    assert silent.refused is silent.warning is None


def test_the_same_id_in_two_sessions_is_two_episodes(project, running) -> None:
    _, token = factories.runtime_make(project)
    other = leases.lease_check(token=token)
    save(running, row(1, reward=1.0))
    save(other, row(1, reward=2.0))
    assert EpisodeRecord.objects.get(session=running).reward == 1.0


def test_a_runtime_that_lost_its_lease_reports_nothing(running) -> None:
    leases.lease_issue(session=Session.objects.get(id=running.id))
    with pytest.raises(StaleLease):
        save(running, row(1))
    assert not EpisodeRecord.objects.exists()


def test_what_was_lost_with_a_machine_is_not_listed_as_if_it_were_there(running) -> None:
    save(running, *map(row, range(1, 6)))
    save(running, row(4, episode_id="epi_another"), journal_last=3)
    assert numbers(running) == [4, 3, 2, 1]
    assert not EpisodeRecord.objects.filter(episode_id__in=["epi_4", "epi_5"]).exists()


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (Filter(), [6, 5, 4, 3, 2, 1]),
        (Filter(task="task-1"), [4, 1]),
        (Filter(fates=[EpisodeFate.STALE, EpisodeFate.ABANDONED]), [6, 5]),
        (Filter(eval=True), [4]),
        (Filter(reward_min=0.2, reward_max=0.3), [3, 2]),
        (Filter(version=5), [3, 2]),
        (Filter(step=2), [2]),
        (Filter(agent="critic"), [3]),
        (Filter(agent="crit"), []),
        (Filter(text="PARIS"), [3, 2]),
        (Filter(text="100%_"), [1]),
        (Filter(text="task-0"), [6, 3]),
        (Filter(text="Paris", task="task-2"), [2]),
        (Filter(metrics=[bound_of("turns>=3")]), [5, 4]),
        (Filter(metrics=[bound_of("turns>=3"), bound_of("turns<=3.5")]), [4]),
        (Filter(metrics=[bound_of("rewards_by_agent/a.b c>=0.5")]), [5]),
        (Filter(metrics=[bound_of("rewards_by_agent/0<=-1")]), [4]),
        (Filter(metrics=[bound_of("7>=1"), bound_of("\u00e9>=1")]), [3]),
        (Filter(metrics=[bound_of(f"{2**70}>=1")]), []),
    ],
)
def test_a_filter_finds_what_it_says(running, only, found) -> None:
    save(
        running,
        row(1, answer="it is 100%_ sure"),
        row(2, answer="Paris", policy_version_first=4, policy_version_last=5, trained_step=2),
        row(
            3,
            prompt="where is paris?",
            policy_version_first=5,
            policy_version_last=9,
            agents=["critic"],
            metrics={"7": 1, "\u00e9": 1},
        ),
        row(4, eval=True, fate="eval", metrics={"turns": 3.5}, rewards_by_agent={"0": -1, "1": 2}),
        row(5, fate="stale", metrics={"turns": 4}, rewards_by_agent={"a.b c": 0.5}),
        row(6, fate="abandoned", reward=None),
    )
    assert numbers(running, only) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        (EpisodeSort.NEWEST, [6, 5, 4, 3, 2, 1]),
        (EpisodeSort.OLDEST, [1, 2, 3, 4, 5, 6]),
        (EpisodeSort.BEST, [4, 5, 3, 2, 1]),
        (EpisodeSort.WORST, [1, 2, 3, 5, 4]),
        (EpisodeSort.LONGEST, [1, 2, 6, 5, 4, 3]),
        (EpisodeSort.SURPRISING, [3, 2, 5]),
    ],
)
def test_every_order_goes_through_all_pages_without_a_gap_or_a_repetition(
    running, sort, found
) -> None:
    rewards = {1: -1.0, 2: 0.5, 3: 0.5, 4: 2.0, 5: 0.5, 6: None}
    lengths = {1: 9, 2: 8}
    surprise = {2: -1.5, 3: -2.0, 5: -1.0}
    save(
        running,
        *(
            row(
                number,
                reward=reward,
                sampled_tokens=lengths.get(number, 0),
                logprob_mean=surprise.get(number),
            )
            for number, reward in rewards.items()
        ),
    )
    assert numbers(running, sort=sort) == found
    assert numbers(running, Filter(fates=[EpisodeFate.TRAINED]), sort) == found, (
        "so few that they are sorted"
    )


@pytest.mark.parametrize(
    "only", [Filter(task="task-1"), Filter(step=7), Filter(fates=[EpisodeFate.STALE])]
)
@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="others have statistics to choose an index by"
)
def test_few_episodes_are_not_looked_for_along_the_order_of_all(running, only) -> None:
    with CaptureQueriesContext(connection) as queries:
        numbers(running, only, EpisodeSort.BEST)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {queries.captured_queries[-1]['sql']}")
        plan = " ".join(str(line[3]) for line in cursor.fetchall())
    assert "episode_reward" not in plan


@pytest.mark.parametrize("cursor", ["x", "", "1~", "~", "nan~1", "1.5~-3", "1~1~1", "9" * 30])
@pytest.mark.parametrize("sort", [EpisodeSort.NEWEST, EpisodeSort.BEST])
def test_a_cursor_that_no_page_returned_is_refused(running, cursor, sort) -> None:
    with pytest.raises(InvalidRequest):
        selectors.episode_list(
            project=running.project,
            session_id=running.id,
            only=Filter(),
            sort=sort,
            cursor=cursor,
            limit=2,
        )


def test_another_project_is_told_of_nothing(running, bob) -> None:
    save(running, row(1, trained_step=1, group_key="a"))
    his = Project.objects.get(memberships__user=bob)
    reads = [
        lambda: selectors.episode_list(project=his, session_id=running.id, only=Filter()),
        lambda: selectors.episode_get(project=his, session_id=running.id, episode_id="epi_1"),
        lambda: selectors.episode_neighbours(
            project=his,
            session_id=running.id,
            episode_id="epi_1",
            only=Filter(),
            sort=EpisodeSort.NEWEST,
        ),
        lambda: selectors.group_list(project=his, session_id=running.id),
        lambda: selectors.step_get(project=his, session_id=running.id, step=1),
    ]
    for read in reads:
        with pytest.raises(NotFound):
            read()


def test_groups_are_those_of_a_step_and_those_that_fill(running) -> None:
    save(
        running,
        row(1, group_key="a", task="a", trained_step=1),
        row(2, group_key="a", task="a", trained_step=1),
        row(3, group_key="b", task="b", trained_step=1),
        row(4, group_key="a", task="a", trained_step=2),
        row(5, group_key="a", task="a", fate="waiting"),
        row(6, group_key="a", task="a", fate="stale"),
    )

    def found(**asked) -> list:
        groups, more = selectors.group_list(project=running.project, session_id=running.id, **asked)
        return [
            (group.key, group.step, [each.seq for each in group.episodes]) for group in groups
        ], more

    assert found() == ([("a", None, [5]), ("a", 2, [4]), ("b", 1, [3]), ("a", 1, [1, 2])], None)
    assert found(limit=2) == ([("a", None, [5]), ("a", 2, [4])], 4)
    assert found(limit=2, cursor=4) == ([("b", 1, [3]), ("a", 1, [1, 2])], None)
    assert found(task="a", step=1) == ([("a", 1, [1, 2])], None)


@pytest.mark.parametrize(("walked", "limit"), [(1, 1), (3, 2), (500, 3)])
def test_every_group_is_on_one_page_however_its_episodes_are_mixed_with_others(
    running, monkeypatch, walked, limit
):
    monkeypatch.setattr(selectors, "WALKED_AT_ONCE", walked)
    chance = random.Random(walked)
    keys = [chance.choice("abcdefg") for _ in range(60)]
    save(
        running,
        *(
            row(seq, group_key=key, trained_step=ord(key) % 3 + 1)
            for seq, key in enumerate(keys, start=1)
        ),
    )
    newest = {key: seq for seq, key in enumerate(keys, start=1)}
    read, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        groups, cursor = selectors.group_list(
            project=running.project, session_id=running.id, cursor=cursor, limit=limit
        )
        read += [(group.key, len(group.episodes)) for group in groups]
        pages += 1
    assert read == [(key, keys.count(key)) for key in sorted(newest, key=newest.get, reverse=True)]


def test_a_step_has_its_metrics_its_groups_and_what_was_refused_before_it(running) -> None:
    save(running, row(1, group_key="a", trained_step=2), row(2, group_key="b", trained_step=2))
    for step in (1, 2):
        event_record(
            session_id=running.id, kind=EventKind.METRIC, data={"step": step}, key=f"step {step}"
        )
    refused = {"name": "step_refused", "step": 2, "reason": "why"}
    event_record(
        session_id=running.id, kind=EventKind.EVENT, data=refused, key="refused refused-epi_9"
    )
    event_record(
        session_id=running.id,
        kind=EventKind.EVENT,
        data=refused | {"step": 12},
        key="refused refused-epi_7",
    )

    step = selectors.step_get(project=running.project, session_id=running.id, step=2)
    assert step.metric is not None and step.metric.data == {"step": 2}
    assert [(group.key, len(group.episodes)) for group in step.groups] == [("a", 1), ("b", 1)]
    assert [event.data["reason"] for event in step.refused] == ["why"]
    assert (step.previous, step.next) == (1, None)
    with pytest.raises(NotFound):
        selectors.step_get(project=running.project, session_id=running.id, step=3)


# -- Packs ------------------------------------------------------------------------------------------------------------


def store(session: Session, told: dict[str, dict]) -> None:
    """Upload the documents of these episodes as a runtime does."""
    packed, whole = [], b""
    for episode_id, document in told.items():
        data = gzip.compress(json.dumps(document).encode())
        packed.append({"episode_id": episode_id, "offset": len(whole), "size_bytes": len(data)})
        whole += data
    plan = uploads.upload_open(
        session=session, body=opening({"pack": whole}, kind="episodes", packed=packed)
    )
    uploads.upload_commit(
        session=session, upload_id=plan.upload_id, body=write(plan, {"pack": whole})
    )


def read(session: Session, episode_id: str) -> dict:
    return documents.document_read(
        selectors.episode_get(project=session.project, session_id=session.id, episode_id=episode_id)
    )


def test_an_episode_is_read_through_its_own_session_alone(project, bob, running) -> None:
    theirs, _ = factories.runtime_make(bob.memberships.get().project)
    another, _ = factories.runtime_make(project)
    for session in (theirs, another):
        made = {
            "session": session,
            "episode_id": f"ep_{session.id}",
            "seq": 1,
            "fate": "trained",
            "begun_at": 0,
        }
        EpisodeRecord.objects.create(**made)
        with pytest.raises(NotFound):
            selectors.episode_get(
                project=project, session_id=running.id, episode_id=f"ep_{session.id}"
            )
    found = selectors.episode_get(
        project=project, session_id=another.id, episode_id=f"ep_{another.id}"
    )
    assert found.session_id == another.id


def test_every_document_of_a_pack_is_read_whatever_the_session_does(running, s3) -> None:
    save(running, row(1), row(2), row(3))
    told = {f"epi_{number}": {"it": "is" * number} for number in (1, 2, 3)}
    store(running, told)
    Session.objects.filter(id=running.id).update(state="stopped")
    assert {episode_id: read(running, episode_id) for episode_id in told} == told


def test_episodes_that_are_packed_again_leave_no_object_behind(running, s3) -> None:
    save(running, row(1), row(2))
    store(running, {"epi_1": {"a": 1}})
    store(running, {"epi_1": {"a": 1}, "epi_2": {"b": 2}})
    assert read(running, "epi_1") == {"a": 1}
    assert len(list(object_store.keys_under(f"sessions/{running.id}/trajectories/"))) == 1
    store(running, {"epi_unknown": {}})
    assert EpisodePack.objects.count() == 1


def test_a_pack_that_holds_an_earlier_document_says_so(running, s3) -> None:
    save(running, row(1), row(2))
    store(running, {"epi_1": {"a": 1}, "epi_2": {"b": 2}})
    store(running, {"epi_1": {"a": 1, "trained": True}})
    assert [read(running, f"epi_{number}") for number in (1, 2)] == [
        {"a": 1, "trained": True},
        {"b": 2},
    ]
    assert list(EpisodePack.objects.order_by("id").values_list("has_replaced", flat=True)) == [
        True,
        False,
    ]


def test_a_reader_that_looked_before_an_episode_was_packed_again_reads_what_is_there_now(
    running, s3
) -> None:
    save(running, row(1))
    store(running, {"epi_1": {"a": 1}})
    looked = selectors.episode_get(
        project=running.project, session_id=running.id, episode_id="epi_1"
    )
    store(running, {"epi_1": {"a": 1, "trained": True}})
    assert documents.document_read(looked) == {"a": 1, "trained": True}
    object_store.delete(list(object_store.keys_under(f"sessions/{running.id}/trajectories/")))
    with pytest.raises(NotFound):
        documents.document_read(looked)


def test_a_runtime_is_told_where_documents_of_its_own_session_are(project, running, s3) -> None:
    save(running, row(1), row(2), row(3))
    told = {"epi_1": {"a": 1}, "epi_2": {"b": 2}}
    store(running, told)
    other, _ = factories.runtime_make(project)
    asked = ["epi_2", "epi_1", "epi_3", "epi_none"]
    places = stored_files.documents_find(session=running, episode_ids=asked)
    assert {
        place.episode_id: json.loads(gzip.decompress(bytes_at(place))) for place in places
    } == told
    assert stored_files.documents_find(session=other, episode_ids=asked) == []


def bytes_at(place: DocumentPlace) -> bytes:
    return fetch(
        place.url, {"Range": f"bytes={place.offset}-{place.offset + place.size_bytes - 1}"}
    )


def test_a_pack_cannot_name_what_lies_outside_of_it(running) -> None:
    packed = [{"episode_id": "epi_1", "offset": 3, "size_bytes": 2}]
    with pytest.raises(InvalidRequest):
        uploads.upload_open(
            session=running, body=opening({"pack": b"1234"}, kind="episodes", packed=packed)
        )


def test_a_copy_of_the_journal_leaves_a_pack_under_way_alone(running, s3) -> None:
    save(running, row(1))
    whole, journal = gzip.compress(b"{}"), {"journal.sqlite3": b"rows"}
    packed = [{"episode_id": "epi_1", "offset": 0, "size_bytes": len(whole)}]
    plan = uploads.upload_open(
        session=running, body=opening({"pack": whole}, kind="episodes", packed=packed)
    )
    opened = uploads.upload_open(session=running, body=opening(journal, kind="journal"))
    uploads.upload_commit(session=running, upload_id=opened.upload_id, body=write(opened, journal))
    uploads.upload_commit(
        session=running, upload_id=plan.upload_id, body=write(plan, {"pack": whole})
    )
    assert read(running, "epi_1") == {}


def test_packs_count_as_stored_and_go_with_their_session(project, running, s3) -> None:
    save(running, row(1))
    store(running, {"epi_1": {}})
    assert (
        quotas.quotas_get(project=project).storage_bytes.used
        == EpisodePack.objects.get().size_bytes
        > 0
    )
    Session.objects.filter(id=running.id).update(state="stopped", launch_handle=None)
    session_delete(project=project, session_id=running.id)
    removal.removals_finish()
    assert list(object_store.keys_under(f"sessions/{running.id}/")) == []
    assert not EpisodeRecord.objects.exists() and not EpisodePack.objects.exists()
