"""Every ended episode is in exactly one part of the archive, and its row is what the journal
says.
"""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as parquet
import pytest

from gpu_runtime.archive.archive import Archive
from gpu_runtime.archive.parts import parts_fix, parts_unstored
from gpu_runtime.archive.table import SCHEMA, episode_row, part_write
from gpu_runtime.errors import StoreUnavailable
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.journal.removal import ERASED
from gpu_runtime.journal.token_values import set_pack
from support.archive_checks import check_archive, check_row, rows_in
from support.fake_control_plane import error_body
from support.waiting import eventually
from tinkerscript.wire.episodes import WorkflowOutput


def answer(choice: int, ids: tuple[int, ...], version: int = 0) -> Completion:
    """An answer whose log-probabilities are floats that 32 bits hold."""
    logprobs_T, versions_T = tuple(-token / 64 for token in ids), (version,) * len(ids)
    return Completion(
        choice=choice, token_ids_T=ids, logprobs_T=logprobs_T, versions_T=versions_T, text=f"{ids}",
 finish_reason="stop", message={"role": "assistant", "content": "ä \ud800"},
    )  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path):
    opened = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    yield opened
    opened.close()


def written(journal: Journal, path: Path, *ids: str) -> list[dict[str, Any]]:
    """The rows of a file made of these episodes."""
    records = [journal.episodes.get(episode_id) for episode_id in ids]
    rows = [episode_row(record, journal.calls.of_episode(record.id)) for record in records]
    assert sum(part_write(path, rows, {"session_id": "ses_1"})) == len(ids)
    return parquet.read_table(path).to_pylist()


def test_a_row_has_every_token_of_agents_forks_and_continued_calls(
    journal: Journal, tmp_path: Path
) -> None:
    journal.episodes.begin("e", task=None, eval=False, deadline_at=2e9)
    times = {"begun_at": 1.25, "ended_at": 2.5}
    said = [{"role": "user", "content": "hello"}]
    journal.calls.record(
        CallRecord(
            "c1", "e", (1, 2), (answer(0, (3, 4)), answer(1, (3, 4))), **times, messages=said
        )
    )
    journal.calls.record(
        CallRecord("c2", "e", (1, 2, 3, 4, 9), (answer(0, (5,), version=7),), **times)
    )
    journal.calls.record(CallRecord("c3", "e", (8,), (answer(0, (3,)),), **times, agent="critic"))
    journal.calls.record(
        CallRecord("c4", "e", (6,), (answer(0, (2, 2)),), **times, status="cancelled")
    )
    output = WorkflowOutput(
        reward=0.1,
        is_success=True,
        metrics={"turns": 3.0},
        metadata={"a": [1, None]},
        rewards_by_agent={"critic": 2.0},
        reward_parts={"format": 0.5},
    )
    journal.episodes.end("e", output, {"timelines": 3})
    (row,) = written(journal, tmp_path / "p", "e")
    check_row(row, journal.episodes.get("e"), journal.calls.of_episode("e"))
    assert [line["token_ids"] for line in row["timelines"]] == [
        [1, 2, 3, 4, 9, 5],
        [1, 2, 3, 4],
        [8, 3],
    ]
    assert row["timelines"][0]["policy_versions"] == [-1, -1, 0, 0, -1, 7]
    assert row["timelines"][0]["calls"] == ["c1", "c2"]
    assert (row["is_success"], json.loads(row["metadata"]), row["rewards_by_agent"]) == (
        True, {"a": [1, None]}, [("critic", 2.0)],
    )  # fmt: skip
    assert row["metrics"] == [("turns", 3.0), ("reward/format", 0.5)]
    assert (row["fate"], row["policy_version_first"], row["policy_version_last"]) == (
        "waiting",
        0,
        7,
    )


def test_a_row_says_at_what_temperature_and_among_which_ids_a_token_was_chosen(
    journal: Journal, tmp_path: Path
) -> None:
    journal.episodes.begin("e", task=None, eval=False, deadline_at=2e9)
    two, one = set_pack(b"\x18"), set_pack(b"\x20")  # ids 3 and 4; id 5
    narrowed = replace(
        answer(0, (3, 5, 9)),
        allowed_T=(two, one, None),
        raw_logprobs_T=(-4.0, -5.0, -6.0),
        experts_T=(b"ab", None, b"cd"),
    )
    options = {"sampling": {"temperature": 0.5}}
    for call in (
        CallRecord("c1", "e", (1, 2), (narrowed,), begun_at=1.0, ended_at=2.0, options=options),
        CallRecord(
            "c3", "e", (8,), (answer(0, (6,)),), begun_at=1.0, ended_at=2.0, options=options
        ),
        CallRecord("c2", "e", (1, 2, 3, 5, 9, 7), (answer(0, (4,)),), begun_at=1.0, ended_at=2.0),
    ):
        journal.calls.record(call)
    journal.episodes.end("e", WorkflowOutput(reward=1.0), {"timelines": 1})
    line, unknown = written(journal, tmp_path / "p", "e")[0]["timelines"]
    assert line["token_ids"] == [1, 2, 3, 5, 9, 7, 4]
    assert line["temperatures"] == [1, 1, 0.5, 0.5, 0.5, 1, 1]
    assert line["allowed"] == [-1, -1, 0, 1, -1, -1, -1]
    assert line["allowed_sets"] == [two, one]
    assert line["raw_logprobs"] == [0, 0, -4, -5, -6, 0, line["logprobs"][6]], (
        "at temperature 1 there is but one"
    )
    assert line["experts"] == [None, None, b"ab", None, b"cd", None, None]
    assert unknown["experts"] == [], "recorded of none of its tokens"
    assert unknown["raw_logprobs"] == [0, None], "sampled at another temperature, and not recorded"


def test_an_episode_that_was_not_completed_has_its_calls_and_no_reward(
    journal: Journal, tmp_path: Path
) -> None:
    for episode_id, end in (("a", journal.episodes.abandon), ("x", journal.episodes.expire)):
        journal.episodes.begin(episode_id, task="t", eval=False, deadline_at=2e9)
        call = CallRecord(
            f"c{episode_id}", episode_id, (1,), (answer(0, (2,)),), begun_at=1.0, ended_at=2.0
        )
        journal.calls.record(call)
        end(episode_id, f"why {episode_id}")
    rows = written(journal, tmp_path / "p", "a", "x")
    assert [(row["fate"], row["reason"], row["reward"]) for row in rows] == [
        ("abandoned", "why a", None), ("expired", "why x", None),
    ]  # fmt: skip
    assert [row["timelines"][0]["token_ids"] for row in rows] == [[1, 2], [1, 2]]


def test_the_same_rows_make_the_same_bytes_and_every_column_has_a_description(
    journal: Journal, tmp_path: Path
) -> None:
    for number in range(40):  # of several row groups
        journal.episodes.begin(f"e{number}", task="t", eval=True, deadline_at=2e9)
        journal.episodes.abandon(f"e{number}", "why")
    ids = [f"e{number}" for number in range(40)]
    assert [row["episode_id"] for row in written(journal, tmp_path / "p", *ids)] == ids
    written(journal, tmp_path / "q", *ids)
    assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()
    schema = parquet.read_schema(tmp_path / "p")
    assert schema.names == SCHEMA.names and schema.metadata[b"session_id"] == b"ses_1"
    assert all(field.metadata[b"description"] for field in schema)


async def test_what_a_model_was_trained_on_is_archived_when_the_model_is_there(
    plane, runtime
) -> None:
    async with runtime(plane) as it:
        await it.play("late", 1.0)
        await it.play_groups("a", "b")
        await it.stepped(1)
        left = await it.post("/episodes", json={"task": "c"})
        await it.post(f"/episodes/{left['episode_id']}/abandon", json={"reason": "why"})
        it.order("ckp_model", "model")
        await it.committed("ckp_model")
        fates = check_archive(plane, it.volume)
        assert sorted(fates.values()) == [
            "abandoned",
            "stale",
            "trained",
            "trained",
            "trained",
            "trained",
        ]
        assert {row["trained_step"] for row in rows_in(plane) if row["fate"] == "trained"} == {1}
        await it.end()


async def test_a_suspended_session_keeps_what_waits_and_a_stopped_one_archives_it(
    plane, runtime
) -> None:
    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        waits = await it.play("c", 0.0)
        await it.end("suspend")
        assert waits not in check_archive(plane, it.volume) and len(rows_in(plane)) == 4
    plane.orders = plane.orders | {"stop": None}
    async with runtime(plane) as it:
        await it.play("c", 1.0)
        await it.play("d", 0.5)
        await it.post("/episodes", json={"task": "open"})
        await it.end("stop")
        fates = check_archive(plane, it.volume)
        assert sorted(fates.values()) == ["trained"] * 4 + ["waiting"] * 3
        assert not (it.volume / "archive").exists()


async def test_parts_that_the_store_did_not_take_are_taken_later(plane, runtime) -> None:
    def away(body: dict[str, Any]) -> tuple[int, Any]:
        return (
            (503, error_body("storage_unavailable"))
            if body["kind"] == "archive"
            else (200, plane.upload_open(body))
        )

    async with runtime(plane, patience_s=0.3) as it:
        plane.answers["/v1/runtime/uploads"] = away
        await it.play_groups("a", "b")
        await it.stepped(1)
        it.order("ckp_state", "state")
        await eventually(
            lambda: any(
                "archive" in str(entry["data"].get("what")) for entry in plane.entries.values()
            )
        )
        assert rows_in(plane) == []
        with pytest.raises(StoreUnavailable):
            await it.end("suspend")
    del plane.answers["/v1/runtime/uploads"]
    plane.orders = plane.orders | {"stop": None}
    async with runtime(plane) as it:
        await it.committed("ckp_state")
        await it.end("stop")
        assert list(check_archive(plane, it.volume).values()) == ["trained"] * 4


async def test_an_erased_episode_is_in_no_part(journal: Journal, tmp_path: Path) -> None:
    stored: list[str] = []

    async def upload(path: Path, part: int, episodes: int, **_: Any) -> None:
        stored.extend(row["episode_id"] for row in parquet.read_table(path).to_pylist())

    async def renew() -> None:
        """The journal's copy."""

    for name in ("a", "b"):
        journal.episodes.begin(name, task="t", eval=False, deadline_at=2e9)
        journal.episodes.abandon(name, "why")
    with journal.database.transaction() as sql:
        sql.execute("UPDATE episodes SET reason = ? WHERE id = 'a'", (ERASED,))
    about, store = (
        SimpleNamespace(session_id="s", base_model="m"),
        SimpleNamespace(archive_upload=upload),
    )
    session = SimpleNamespace(assignment=about, store=store, volume=tmp_path)
    await Archive(session, journal, SimpleNamespace(renew=renew)).publish()
    assert stored == ["b"]


def test_an_end_that_is_tried_again_puts_no_episode_into_a_second_part(journal: Journal) -> None:
    journal.episodes.begin("given-up", task=None, eval=False, deadline_at=2e9)
    journal.episodes.abandon("given-up", "why")
    journal.episodes.begin("waits", task="t", eval=False, deadline_at=2e9)
    journal.episodes.end("waits", WorkflowOutput(reward=1.0), {"timelines": 0})
    for _ in range(2):
        parts_fix(journal, everything=True)
    (part,) = parts_unstored(journal)
    assert sorted(part.episode_ids) == ["given-up", "waits"]
