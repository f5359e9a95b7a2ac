"""What is done for each episode and each second takes no longer in a journal of a hundred thousand
episodes.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_runtime.archive.parts import parts_fix, parts_unstored
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.removal import episodes_prunable
from gpu_runtime.trajectories.outbox import Due, documents_due, rows_due, rows_reported
from support.gateway_harness import running_gateway
from tinkerscript.wire.episodes import WorkflowOutput

# a row of each name, of each state: they do not grow with episodes
BOUNDED = {"meta", "episode_counts"}
# of what is not done yet
DUE = {"episodes_to_report", "episodes_to_archive", "stored_documents USING INDEX documents_unpruned",
       "archive_parts USING INDEX parts_unstored", "due"}  # fmt: skip


@contextmanager
def statements(connection: sqlite3.Connection) -> Iterator[set[str]]:
    """Every statement that runs in the block, with its values."""
    seen: set[str] = set()
    connection.set_trace_callback(lambda text: None if text.startswith("--") else seen.add(text))
    try:
        yield seen
    finally:
        connection.set_trace_callback(None)


def scans(connection: sqlite3.Connection, texts: set[str]) -> list[str]:
    """Where a plan goes through a whole table that grows."""
    tables = {
        row["name"]
        for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    } - BOUNDED
    reads = [
        text for text in texts if text.split(" ", 1)[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")
    ]
    found = []
    for text in sorted(reads):
        for row in connection.execute(f"EXPLAIN QUERY PLAN {text}"):
            # A search without an index is that of min() or max() through the whole table.
            whole = [table for table in tables if row["detail"].startswith(f"SCAN {table}")]
            if whole or row["detail"] in {f"SEARCH {table}" for table in tables}:
                found.append(f"{row['detail']}: {text}")
    return found


def _is_of_due(scan: str) -> bool:
    if "max(number)" in scan:  # of a primary key: the last row
        return True
    what = scan.removeprefix("SCAN ")
    return any(what.startswith(f"{each}:") or what.startswith(f"{each} USING") for each in DUE)


async def test_a_begin_a_call_an_end_and_the_ledger_go_through_no_table(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        connection = gateway.journal.database.connection
        with statements(connection) as seen:
            for end in (gateway.end, None):
                begun = await gateway.begin(task="t")
                await gateway.chat(begun)
                if end is not None:
                    await end(begun["episode_id"])
                else:
                    await gateway.internal(
                        "POST", f"/episodes/{begun['episode_id']}/abandon", json={"reason": "x"}
                    )
            assert (await gateway.accounting())["begun"] == 2
        assert any("end_seq" in text for text in seen) and any(
            "episode_counts" in text for text in seen
        )
        assert scans(connection, seen) == []


def test_groups_that_are_set_aside_and_parts_of_the_archive_go_through_no_table(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    for name in ("a", "b"):
        journal.episodes.begin(name, task="t", eval=False, deadline_at=2e9)
        journal.episodes.end(name, WorkflowOutput(reward=1.0), {"timelines": 1})
    connection = journal.database.connection
    with statements(connection) as seen:
        assert journal.batches.set_aside(1, [["a", "b"]], [1.0], "level") == [1.0]
        parts_fix(journal, everything=False)
        parts_fix(journal, everything=True)
        (part,) = parts_unstored(journal)
        episodes_prunable(journal.database, committed_step=1)
    assert sorted(part.episode_ids) == ["a", "b"]
    found = [each for each in scans(connection, seen) if not _is_of_due(each)]
    assert found == []
    journal.close()


def test_what_was_settled_in_an_earlier_journal_is_archived_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = Journal(path, min_free_bytes=0)
    for name in ("a", "b", "c"):
        journal.episodes.begin(name, task="t", eval=False, deadline_at=2e9)
    journal.episodes.abandon("a", "x")
    parts_fix(journal, everything=False)
    journal.episodes.abandon("b", "x")
    journal.database.connection.executescript(
        "DROP TABLE episodes_to_archive; DROP TRIGGER episode_settled;"
        "DELETE FROM meta WHERE name = 'settled_noted'"
    )
    journal.close()
    journal = Journal(path, min_free_bytes=0)
    journal.episodes.abandon("c", "x")
    parts_fix(journal, everything=False)
    assert [part.episode_ids for part in parts_unstored(journal)] == [("a",), ("b", "c")]
    journal.close()


def test_a_scan_would_be_found(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    connection = journal.database.connection
    with statements(connection) as seen:
        connection.execute("SELECT state, count(*) FROM episodes GROUP BY state").fetchall()
        connection.execute("SELECT max(deadline_at) FROM episodes").fetchall()
    assert len(scans(connection, seen)) == 2
    journal.close()


def test_what_the_control_plane_has_is_forgotten_one_by_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    for name in ("a", "b"):
        journal.episodes.begin(name, task="t", eval=False, deadline_at=2e9)
    connection = journal.database.connection
    with statements(connection) as seen:
        rows_reported(journal, [Due("a", 1)])
    assert scans(connection, seen) == []
    with statements(connection) as seen:
        rows_due(journal, 10)
        documents_due(journal, 10)
    assert {found.split(" ")[1].rstrip(":") for found in scans(connection, seen)} == {
        "episodes_to_report"
    }
    assert [due.episode_id for due in rows_due(journal, 10)] == ["b"]
    journal.close()


@pytest.mark.parametrize(
    "is_earlier", [False, True], ids=["counted by triggers", "counted when it is opened"]
)
def test_counts_are_those_of_the_episodes(tmp_path: Path, is_earlier: bool) -> None:
    path = tmp_path / "journal.sqlite3"
    journal = Journal(path, min_free_bytes=0)
    for n in range(12):
        journal.episodes.begin(str(n), task="t", eval=n == 0, deadline_at=2e9)
    for n in range(6):
        journal.episodes.end(str(n), WorkflowOutput(reward=1.0), {"timelines": 1})
    for n, reason in ((6, "x"), (7, "x"), (8, "y")):
        journal.episodes.abandon(str(n), reason)
    journal.episodes.expire("9", "idle")
    journal.episodes.make_eval("10", "sampled so")
    journal.episodes.mark_stale(["1", "2"], "old")
    if is_earlier:
        journal.database.connection.executescript(
            "DROP TABLE episode_counts; DROP TRIGGER episode_counted;"
            "DROP TRIGGER episode_counted_again"
        )
        journal.close()
        journal = Journal(path, min_free_bytes=0)
    found = journal.episodes.accounting()
    assert found.balances and found.begun == 12
    assert (found.eval, found.waiting, found.stale, found.expired, found.open) == (1, 3, 2, 1, 2)
    assert found.abandoned_by_reason == {"x": 2, "y": 1}
    journal.close()
