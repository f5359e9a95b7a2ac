"""The journal's copy in the store: what is sent is what changed, and what is read back is the
journal.
"""

import asyncio
import random
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import DiskFull, StoreUnavailable
from gpu_runtime.journal.journal import Journal
from gpu_runtime.object_store import journal_replica
from gpu_runtime.object_store.file_changes import changes_apply, changes_write
from gpu_runtime.object_store.journal_replica import JournalReplica
from gpu_runtime.object_store.uploads import ObjectStore
from support.fake_control_plane import LEASE, FakeControlPlane, error_body
from tinkerscript.wire.runtime import StoredFile

UPLOADS = "/v1/runtime/uploads"
ROWS = "INSERT INTO meta VALUES (?, ?)"


@pytest.fixture
def journal(tmp_path):
    opened = Journal(tmp_path / "journal.sqlite3", min_free_bytes=0)
    rows_add(opened, 0, 400)
    yield opened
    opened.close()


def plane() -> FakeControlPlane:
    """One whose uploads have one part each."""
    made = FakeControlPlane()
    made.part_size_bytes = 1 << 30
    return made


@asynccontextmanager
async def registered(server: FakeControlPlane, tmp_path: Path):
    config = RuntimeConfig(
        server_url=server.url, lease=LEASE, session_id="ses_0123456789abcdef", runtime_dir=tmp_path
    )
    async with Agent(config) as agent:
        await agent.register()
        yield agent


def rows_add(journal: Journal, begin: int, end: int) -> None:
    with journal.database.transaction() as connection:
        connection.executemany(
            ROWS, [(f"row {number}", f"{number:08}" * 500) for number in range(begin, end)]
        )


def rows_of(journal: Journal) -> list[tuple]:
    return [tuple(row) for row in journal.database.rows("SELECT * FROM meta ORDER BY name")]


def sent(server: FakeControlPlane) -> list[dict]:
    return server.bodies(UPLOADS)


async def read_back(server: FakeControlPlane, store: ObjectStore, path) -> list[tuple]:
    """A new volume's journal, of the copy that the server has kept."""
    whole, *changes = map(StoredFile.model_validate, server.journal_files())
    await store.journal_fetch(whole, path, changes)
    copy = Journal(path, min_free_bytes=0)
    try:
        return rows_of(copy)
    finally:
        copy.close()


async def test_what_is_sent_is_what_changed_and_the_journal_comes_back(tmp_path, journal):
    with plane() as server:
        async with registered(server, tmp_path) as agent:
            store = ObjectStore(agent)
            replica = JournalReplica(store, journal, tmp_path)
            await replica.renew()
            await replica.renew()
            assert len(sent(server)) == 1, "an unchanged journal is not sent again"
            for begin in (400, 410, 420):
                rows_add(journal, begin, begin + 10)
                await replica.renew()
            whole, *changes = (body["files"][0] for body in sent(server))
            assert all(file["size_bytes"] < whole["size_bytes"] / 10 for file in changes)
            assert sent(server)[-1]["follows"] == [
                file["sha256"] for file in (whole, *changes[:-1])
            ]
            assert await read_back(server, store, tmp_path / "lost" / "journal.sqlite3") == rows_of(
                journal
            )


async def test_changes_that_grow_large_or_many_give_way_to_a_whole_copy(
    tmp_path, journal, monkeypatch
):
    monkeypatch.setattr(journal_replica, "MAX_CHANGES", 2)
    with plane() as server:
        async with registered(server, tmp_path) as agent:
            replica = JournalReplica(ObjectStore(agent), journal, tmp_path)
            for begin, end in ((400, 401), (401, 402), (402, 403), (403, 404), (404, 1400)):
                rows_add(journal, begin, end)
                await replica.renew()
    assert [len(body["follows"]) for body in sent(server)] == [0, 1, 2, 0, 0]


async def test_after_an_upload_that_failed_a_whole_copy_is_sent(tmp_path, journal):
    with plane() as server:
        async with registered(server, tmp_path) as agent:
            replica = JournalReplica(ObjectStore(agent, patience_s=0.05), journal, tmp_path)
            await replica.renew()
            rows_add(journal, 400, 410)
            server.answers[UPLOADS] = (507, error_body("disk_full", "The disk is nearly full."))
            with pytest.raises(StoreUnavailable):
                await replica.renew()
            del server.answers[UPLOADS]
            await replica.renew()
    assert sent(server)[-1]["follows"] == []


async def test_changes_to_a_copy_that_is_not_there_give_way_to_a_whole_one_at_once(
    tmp_path, journal
):
    with plane() as server:
        async with registered(server, tmp_path) as agent:
            replica = JournalReplica(ObjectStore(agent), journal, tmp_path)
            await replica.renew()
            rows_add(journal, 400, 410)
            refusal = (
                409,
                error_body(
                    "conflict", "The journal's copy is not the one that these changes follow."
                ),
            )
            server.answers[UPLOADS] = lambda body: (
                refusal if body["follows"] else (200, server.upload_open(body))
            )
            await replica.renew()
    assert [len(body["follows"]) for body in sent(server)] == [0, 1, 0]


async def test_nothing_is_left_of_changes_that_the_disk_or_the_store_did_not_take(
    tmp_path, journal, monkeypatch
):
    def half(older: Path, newer: Path, changes: Path) -> int:
        changes.write_bytes(b"half")
        raise DiskFull("no room")

    with plane() as server:
        async with registered(server, tmp_path) as agent:
            replica = JournalReplica(ObjectStore(agent, patience_s=0.05), journal, tmp_path)
            await replica.renew()
            with monkeypatch.context() as patch, pytest.raises(DiskFull):
                patch.setattr(journal_replica, "changes_write", half)
                await replica.renew()
            await replica.renew()
            rows_add(journal, 400, 410)
            server.answers[UPLOADS] = (507, error_body("disk_full", "The disk is nearly full."))
            with pytest.raises(StoreUnavailable):
                await replica.renew()
    assert not list(tmp_path.glob("journal-changes*"))


async def test_nothing_is_left_of_a_copy_that_could_not_be_read_back(tmp_path, journal):
    lost = tmp_path / "lost"
    with plane() as server:
        async with registered(server, tmp_path) as agent:
            store = ObjectStore(agent, patience_s=0.05)
            replica = JournalReplica(store, journal, tmp_path)
            await replica.renew()
            rows_add(journal, 400, 410)
            await replica.renew()
            cut = f"journal/{server.journal[1]['sha256']}"
            kept = server.objects.pop(cut)
            with pytest.raises(StoreUnavailable):
                await read_back(server, store, lost / "journal.sqlite3")
            assert not list(lost.glob(".*changes*"))
            server.objects[cut] = kept
            assert await read_back(server, store, lost / "journal.sqlite3") == rows_of(journal)
            assert not list(lost.glob(".*"))


def test_changes_make_any_newer_version_of_any_older_one(tmp_path):
    draw = random.Random(3)
    older, newer, changes = (tmp_path / name for name in ("older", "newer", "changes"))
    for size, new_size in (
        (0, 0),
        (0, 5000),
        (9000, 0),
        (3 << 20, 3 << 20),
        (2_100_000, 1_000_001),
        (5, (1 << 20) + 7),
    ):
        before = draw.randbytes(size)
        after = bytearray(before[:new_size] + draw.randbytes(max(0, new_size - size)))
        for _ in range(3):
            if after:
                after[draw.randrange(len(after))] ^= 1
        older.write_bytes(before)
        newer.write_bytes(after)
        differing = changes_write(older, newer, changes)
        assert (differing == 0) == (before == after)
        changes_apply(older, changes)
        assert older.read_bytes() == after


def test_a_file_of_changes_that_was_cut_off_is_refused(tmp_path):
    older, newer, changes = (tmp_path / name for name in ("older", "newer", "changes"))
    older.write_bytes(b"a" * 9000)
    newer.write_bytes(b"b" * 9000)
    changes_write(older, newer, changes)
    changes.write_bytes(changes.read_bytes()[:-1])
    with pytest.raises(ValueError, match="cut off"):
        changes_apply(older, changes)
    changes.write_bytes(b"another file of some length")
    with pytest.raises(ValueError, match="does not begin"):
        changes_apply(older, changes)


class NothingToSend(JournalReplica):
    async def renew(self) -> None:
        return


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_is_not_lost_in_the_moment_in_which_the_wait_ends(
    journal, tmp_path, turns: int
) -> None:
    """The machine is taken away just when the work beside this task is over."""
    at_once = asyncio.Event()
    keeping = asyncio.create_task(
        NothingToSend(None, journal, tmp_path).keep_fresh(3600, at_once=at_once)
    )
    await asyncio.sleep(0.01)
    at_once.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    keeping.cancel()
    await asyncio.wait({keeping}, timeout=5)
    assert keeping.cancelled()
