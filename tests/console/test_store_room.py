"""A disk that is nearly full: the embedded store, a real one on a real small disk, refuses, and
says why.
"""

import os
import subprocess
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from console.errors import DiskFull, StorageUnavailable
from console.object_store import client as object_store
from console.object_store import free_space, seaweedfs
from console.object_store.free_space import FreeSpaceMonitor, Room
from console.sessions.runtime import leases, uploads
from support import factories
from support.small_disk import SmallDisk, small_disk
from support.store_calls import fetch, opening, write

GB = 10**9


class Store:
    """A SeaweedFS of its own on a small disk. It looks at its disk at start, and after that once a
    minute only.
    """

    def __init__(self, disk: SmallDisk, log: int) -> None:
        self.disk = disk
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def restart(self, settings) -> None:
        self.stop()
        self._process = seaweedfs.start(settings.DATA, log=self._log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(25)


@pytest.fixture
def store(tmp_path, settings) -> Iterator[Store]:
    settings.DATA = tmp_path / "data"
    with small_disk(settings.DATA / "s3") as disk, (tmp_path / "weed.log").open("wb") as log:
        store = Store(disk, log.fileno())
        try:
            store.restart(settings)
            object_store.ready_wait(timeout_s=60)
        except seaweedfs.WeedMissing as error:
            pytest.skip(str(error))
        try:
            yield store
        finally:
            store.stop()


@pytest.fixture
def running(project):
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


@pytest.fixture
def disk_of(monkeypatch, settings):
    """``disk_of(free_bytes)``: a disk of 250 GB."""
    settings.S3_ENDPOINT_URL = ""

    def set_free(free_bytes: float) -> None:
        monkeypatch.setattr(free_space, "room_get", lambda: Room(int(free_bytes), 250 * GB))

    return set_free


@pytest.mark.system
def test_a_store_that_stopped_writing_gives_the_reason_reads_on_and_loses_nothing(
    running, store, settings, client
):
    object_store.put("kept", b"before")
    store.disk.fill(free_share=0.008)
    store.restart(settings)
    with pytest.raises(
        DiskFull, match=r"nearly full: [12]\.\d MB free of 268\.4 MB, .* 2\.7 MB \(1 %\)"
    ) as refused:
        object_store.ready_wait(timeout_s=60)
    assert str(settings.DATA) in refused.value.hint
    with pytest.raises(ClientError, match="InternalError"):  # all that the store itself has to say
        object_store.client_get().put_object(Bucket=settings.S3_BUCKET, Key="new", Body=b"after")
    with pytest.raises(DiskFull):
        object_store.put("new", b"after")
    assert object_store.get("kept") == b"before" and object_store.get("new") is None
    with pytest.raises(DiskFull):
        uploads.upload_open(session=running, body=opening({"a": b"x"}))
    assert not running.checkpoints.exists() and not running.uploads.exists()
    assert any("nearly full" in problem for problem in client.get("/readyz").json()["problems"])

    store.disk.make_room()
    store.restart(settings)
    object_store.ready_wait(timeout_s=60)
    plan = uploads.upload_open(session=running, body=opening({"a": b"x"}))
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=write(plan, {"a": b"x"}))
    assert running.checkpoints.get().state == "committed" and object_store.get("kept") == b"before"
    assert fetch(object_store.read_url("kept", expires_s=60)) == b"before"


@pytest.mark.system
def test_a_disk_that_is_full_to_the_last_byte_costs_no_object(store, settings):
    object_store.put("kept", b"before")
    store.disk.fill(free_share=0.02)
    with pytest.raises(StorageUnavailable):
        object_store.put("too big", os.urandom(16 << 20))
    store.disk.make_room()
    store.restart(settings)
    object_store.ready_wait(timeout_s=60)
    object_store.put("again", b"after")
    assert (object_store.get("kept"), object_store.get("again")) == (b"before", b"after")


@pytest.mark.parametrize(
    ("free", "size", "fits"), [(2.6, 0, True), (2.4, 0, False), (4, 1.4, True), (4, 1.6, False)]
)
def test_room_is_what_is_left_above_one_percent_of_the_disk(disk_of, free, size, fits):
    disk_of(free * GB)
    assert (free_space.shortage_find(size_bytes=int(size * GB)) is None) == fits


def test_the_words_name_what_is_free_what_is_needed_and_what_to_do(disk_of, settings):
    why = "free of 250.0 GB, and the store takes nothing while less than 2.5 GB (1 %) are free."
    disk_of(3 * GB)
    shortage = free_space.shortage_find(size_bytes=int(1.5 * GB))
    assert shortage.message == f"The disk of the object store has no room for 1.5 GB: 3.0 GB {why}"
    disk_of(2 * GB)
    shortage = free_space.shortage_find(size_bytes=int(1.5 * GB))
    assert shortage.message == f"The disk of the object store is nearly full: 2.0 GB {why}"
    assert (
        f"Free some of the disk of {settings.DATA}" in shortage.hint
        and "TINKERSCRIPT_DATA" in shortage.hint
    )


def test_another_store_has_a_disk_of_its_own(disk_of, settings):
    disk_of(0)
    settings.S3_ENDPOINT_URL = "https://s3.example.com"
    assert free_space.shortage_find() is None


def test_a_shortage_is_reported_once_and_so_is_its_end(disk_of, monkeypatch):
    monkeypatch.setattr(free_space, "WATCH_EVERY_S", 0)
    watch, reports = FreeSpaceMonitor(), []
    for free in (9, 1, 1, 1, 9, 9, 1):
        disk_of(free * GB)
        reports.append((watch.look() or "")[:40])
    short, back = (
        "The disk of the object store is nearly f",
        "The disk of the object store has room ag",
    )
    assert reports == ["", short, "", "", back, "", short]
