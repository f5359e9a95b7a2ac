import asyncio
import hashlib
from contextlib import asynccontextmanager

import pytest

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane import agent as agent_module
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import DiskFull, LeaseLost, StoreFull, StoreUnavailable
from gpu_runtime.health import volume as volume_module
from gpu_runtime.health.volume import folder_publish
from gpu_runtime.object_store import transfer
from gpu_runtime.object_store.uploads import ObjectStore
from support.fake_control_plane import LEASE, FakeControlPlane, error_body
from support.waiting import eventually
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.runtime import ResumePoint, StoredFile

FILES = {
    "model.safetensors": b"0123456789",
    "config.json": b"{}",
    "sub/empty.bin": b"",
    "sub/four.bin": b"abcd",
}
UPLOADS = "/v1/runtime/uploads"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(transfer, "RETRY_FIRST_S", 0.01)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "state-3"
    for name, content in FILES.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(content)
    return made


def config_for(server, tmp_path):
    return RuntimeConfig(
        server_url=server.url, lease=LEASE, session_id="ses_0123456789abcdef", runtime_dir=tmp_path
    )


def store_for(server, tmp_path):
    """A store to read from: no request is made under the lease."""
    return ObjectStore(Agent(config_for(server, tmp_path)))


@asynccontextmanager
async def registered(server, tmp_path):
    async with Agent(config_for(server, tmp_path)) as agent:
        await agent.register()
        yield agent


def point_for(server, files=FILES):
    server.objects.update({f"ckp_9/{name}": content for name, content in files.items()})
    stored = [
        StoredFile(
            path=name,
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            url=f"{server.url}/s3/ckp_9/{name}",
        )
        for name, content in files.items()
    ]
    return ResumePoint(checkpoint_id="ckp_9", step=3, files=stored)


def read_all(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_an_uploaded_checkpoint_is_the_folder_byte_for_byte(tmp_path, folder):
    with FakeControlPlane(part_size_bytes=4) as server:
        async with registered(server, tmp_path) as agent:
            checkpoint_id = await ObjectStore(agent).checkpoint_upload(
                folder, CheckpointKind.STATE, 3
            )
    assert server.objects == {f"{checkpoint_id}/{name}": content for name, content in FILES.items()}
    # 10 bytes in parts of 4
    assert len([path for path in server.parts if "model.safetensors" in path]) == 3
    opened = server.bodies(UPLOADS)[0]
    assert (opened["kind"], opened["step"], opened["checkpoint_id"]) == ("state", 3, None)


async def test_an_ordered_checkpoint_keeps_its_id(tmp_path, folder):
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            assert (
                await ObjectStore(agent).checkpoint_upload(folder, CheckpointKind.MODEL, 3, "ckp_7")
                == "ckp_7"
            )


async def test_a_store_that_was_down_for_a_while_loses_nothing(tmp_path, folder):
    with FakeControlPlane() as server:
        server.store_statuses = [500, 503, 500, 429]
        async with registered(server, tmp_path) as agent:
            checkpoint_id = await ObjectStore(agent).checkpoint_upload(
                folder, CheckpointKind.STATE, 3
            )
    assert server.objects[f"{checkpoint_id}/model.safetensors"] == FILES["model.safetensors"]
    assert len(server.bodies(UPLOADS)) == 1


async def test_a_store_that_stays_down_is_in_the_record(tmp_path, folder):
    with FakeControlPlane() as server:
        server.store_statuses = [500] * 10_000
        async with registered(server, tmp_path) as agent:
            with pytest.raises(StoreUnavailable):
                await ObjectStore(agent, patience_s=0.2).checkpoint_upload(
                    folder, CheckpointKind.STATE, 3
                )
    (entry,) = server.entries.values()
    assert entry["data"]["name"] == "storage_unavailable"
    assert entry["data"]["what"] == "state of step 3"
    assert not any(upload["committed"] for upload in server.uploads.values())


FULL = "The disk of the object store is nearly full: 1.0 GB free of 252.0 GB"


def store_full_events(server: FakeControlPlane) -> list[dict]:
    return [
        entry["data"]
        for entry in list(server.entries.values())
        if entry["data"]["name"] == "store_full"
    ]


async def test_a_full_disk_of_the_store_is_reported_at_once_and_the_upload_goes_on_when_there_is_room(
    tmp_path, folder, monkeypatch
):
    monkeypatch.setattr(agent_module, "FULL_SAID_S", 10**10)
    with FakeControlPlane() as server:
        server.answers[UPLOADS] = (507, error_body("disk_full", FULL))
        async with registered(server, tmp_path) as agent:
            upload = asyncio.create_task(
                ObjectStore(agent).checkpoint_upload(folder, CheckpointKind.STATE, 3)
            )
            await eventually(lambda: store_full_events(server) and len(server.bodies(UPLOADS)) >= 3)
            assert [data["reason"] for data in store_full_events(server)] == [FULL], (
                "once, however often it is asked"
            )
            del server.answers[UPLOADS]
            checkpoint_id = await upload
    assert server.objects[f"{checkpoint_id}/model.safetensors"] == FILES["model.safetensors"]


@pytest.mark.parametrize("refuses", ["the plan", "the bytes"])
async def test_an_upload_that_a_full_disk_ended_reports_it_in_plain_words(
    tmp_path, folder, refuses
):
    plans = []

    def answer(body):
        plans.append(body)
        return (
            (507, error_body("disk_full", FULL))
            if len(plans) > 1
            else (200, server.upload_open(body))
        )

    with FakeControlPlane() as server:
        server.answers[UPLOADS] = (
            answer if refuses == "the bytes" else (507, error_body("disk_full", FULL))
        )
        server.store_statuses = [500] * 10_000
        async with registered(server, tmp_path) as agent:
            with pytest.raises(StoreFull, match=FULL) as fault:
                await ObjectStore(agent, patience_s=0.2).checkpoint_upload(
                    folder, CheckpointKind.STATE, 3
                )
            assert fault.value.code == "disk_full" and agent.lost is None
    (said,) = [
        e["data"] for e in server.entries.values() if e["data"]["name"] == "storage_unavailable"
    ]
    assert (said["what"], said["reason"]) == ("state of step 3", FULL)


async def test_a_control_plane_without_its_store_counts_as_the_store_being_away(tmp_path, folder):
    with FakeControlPlane() as server:
        server.answers[UPLOADS] = (503, error_body("storage_unavailable"))
        async with registered(server, tmp_path) as agent:
            with pytest.raises(StoreUnavailable):
                await ObjectStore(agent, patience_s=0.3).checkpoint_upload(
                    folder, CheckpointKind.STATE, 3
                )
            assert agent.lost is None


async def test_expired_upload_urls_are_asked_for_again_under_the_same_checkpoint(tmp_path, folder):
    with FakeControlPlane() as server:
        server.store_statuses = [403]
        async with registered(server, tmp_path) as agent:
            checkpoint_id = await ObjectStore(agent).checkpoint_upload(
                folder, CheckpointKind.STATE, 3
            )
    first, second = server.bodies(UPLOADS)
    assert first["checkpoint_id"] is None
    assert second["checkpoint_id"] == checkpoint_id
    assert server.objects[f"{checkpoint_id}/config.json"] == b"{}"


async def test_objects_that_the_commit_refuses_are_written_again(tmp_path, folder):
    with FakeControlPlane() as server:
        server.answers[f"{UPLOADS}/up_1/commit"] = (
            409,
            error_body("conflict", "config.json has 0 bytes"),
        )
        async with registered(server, tmp_path) as agent:
            checkpoint_id = await ObjectStore(agent).checkpoint_upload(
                folder, CheckpointKind.STATE, 3
            )
    assert server.objects[f"{checkpoint_id}/config.json"] == b"{}"
    assert len(server.bodies(UPLOADS)) == 2


async def test_a_commit_whose_answer_was_lost_is_repeated(tmp_path, folder):
    with FakeControlPlane() as server:
        lost = [(502, {})]

        def flaky(body):
            return lost.pop() if lost else server.upload_commit("up_1", body)

        server.answers[f"{UPLOADS}/up_1/commit"] = flaky
        async with registered(server, tmp_path) as agent:
            assert (
                await ObjectStore(agent).checkpoint_upload(folder, CheckpointKind.STATE, 3)
                == "ckp_1"
            )
    assert len(server.bodies(f"{UPLOADS}/up_1/commit")) == 2


async def test_a_stale_lease_uploads_nothing(tmp_path, folder):
    with FakeControlPlane() as server:
        async with registered(server, tmp_path) as agent:
            server.answers[UPLOADS] = (409, error_body("stale_lease"))
            with pytest.raises(LeaseLost):
                await ObjectStore(agent).checkpoint_upload(folder, CheckpointKind.STATE, 3)
            assert isinstance(agent.lost, LeaseLost)
    assert server.store_requests == []


async def test_a_cancelled_upload_leaves_no_thread_at_work(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(transfer, "RETRY_LAST_S", 0.01)
    with FakeControlPlane() as server:
        server.store_statuses = [500] * 10_000
        async with registered(server, tmp_path) as agent:
            uploading = asyncio.create_task(
                ObjectStore(agent).checkpoint_upload(folder, CheckpointKind.STATE, 3)
            )
            await eventually(lambda: server.store_requests)
            uploading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await uploading
            asked = len(server.store_requests)
            # in which a thread that still was at work would have tried again ten times
            await asyncio.sleep(0.2)
            assert len(server.store_requests) == asked


async def test_a_fetched_checkpoint_is_what_was_uploaded(tmp_path):
    with FakeControlPlane() as server:
        await store_for(server, tmp_path).checkpoint_fetch(point_for(server), tmp_path / "state-3")
    assert read_all(tmp_path / "state-3") == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["state-3"]


async def test_a_checkpoint_that_was_deleted_is_no_empty_folder(tmp_path):
    with FakeControlPlane() as server, pytest.raises(StoreUnavailable, match="was deleted"):
        await store_for(server, tmp_path).checkpoint_fetch(
            point_for(server, {}), tmp_path / "state-3"
        )
    assert not (tmp_path / "state-3").exists()


async def test_a_local_copy_that_matches_is_not_fetched_again(tmp_path, folder):
    with FakeControlPlane() as server:
        await store_for(server, tmp_path).checkpoint_fetch(point_for(server), folder)
        assert server.store_requests == []


async def test_one_file_of_a_checkpoint_is_there_before_the_others_and_is_not_fetched_twice(
    tmp_path, folder
):
    other, [name, *_] = tmp_path / "state-4", sorted(FILES)
    with FakeControlPlane() as server:
        store, point = store_for(server, tmp_path), point_for(server)
        assert await store.checkpoint_file(point, name, folder) == folder / name
        assert server.store_requests == [], "a local copy matches"
        fetched = await store.checkpoint_file(point, name, other)
        assert (
            fetched.read_bytes() == FILES[name]
            and not other.exists()
            and len(server.store_requests) == 1
        )
        await store.checkpoint_fetch(point, other)
        assert len(server.store_requests) == len(FILES)
    assert read_all(other) == FILES


async def test_a_file_whose_hash_was_looked_at_is_not_read_again_and_the_others_are(
    tmp_path, folder
):
    checked, other = "config.json", "model.safetensors"
    assert {checked, other} <= FILES.keys()
    (folder / checked).write_bytes(bytes(len(FILES[checked])))
    with FakeControlPlane() as server:
        store, point = store_for(server, tmp_path), point_for(server)
        await store.checkpoint_fetch(point, folder, verified=checked)
        assert server.store_requests == []
        (folder / other).write_bytes(bytes(len(FILES[other])))
        await store.checkpoint_fetch(point, folder, verified=checked)
    assert read_all(folder) == FILES


async def test_a_damaged_local_copy_is_replaced(tmp_path, folder):
    (folder / "model.safetensors").write_bytes(b"012345678X")
    (folder / "left over").write_bytes(b"?")
    with FakeControlPlane() as server:
        await store_for(server, tmp_path).checkpoint_fetch(point_for(server), folder)
    assert read_all(folder) == FILES


async def test_a_broken_off_download_goes_on_where_it_stopped(tmp_path):
    with FakeControlPlane() as server:
        point = point_for(server, {"model.safetensors": b"0123456789"})
        server.cut_after_bytes = 6
        await store_for(server, tmp_path).checkpoint_fetch(point, tmp_path / "state-3")
        assert [range_asked for _, _, range_asked in server.store_requests] == [None, "bytes=6-"]
    assert (tmp_path / "state-3/model.safetensors").read_bytes() == b"0123456789"


async def test_a_fetch_of_a_killed_runtime_goes_on_where_it_stopped(tmp_path):
    with FakeControlPlane() as server:
        unfinished = tmp_path / ".state-3.fetching"
        unfinished.mkdir()
        (unfinished / "model.safetensors").write_bytes(b"0123")
        await store_for(server, tmp_path).checkpoint_fetch(
            point_for(server, {"model.safetensors": b"0123456789"}), tmp_path / "state-3"
        )
        assert server.store_requests[0][2] == "bytes=4-"
    assert (tmp_path / "state-3/model.safetensors").read_bytes() == b"0123456789"


async def test_wrong_bytes_are_never_published(tmp_path):
    with FakeControlPlane() as server:
        point = point_for(server, {"model.safetensors": b"0123456789"})
        server.objects["ckp_9/model.safetensors"] = b"0123456xxx"
        with pytest.raises(StoreUnavailable, match="wrong SHA-256"):
            await store_for(server, tmp_path).checkpoint_fetch(point, tmp_path / "state-3")
    assert not (tmp_path / "state-3").exists()


async def test_a_missing_object_is_named_as_a_refusal(tmp_path):
    with FakeControlPlane() as server:
        point = point_for(server)
        del server.objects["ckp_9/config.json"]
        with pytest.raises(StoreUnavailable, match="404"):
            await store_for(server, tmp_path).checkpoint_fetch(point, tmp_path / "state-3")


@pytest.mark.parametrize("path", ["../escape", "/etc/passwd", "a/../../b", ""])
async def test_a_checkpoint_cannot_write_outside_its_folder(tmp_path, path):
    file = StoredFile(path=path, size_bytes=1, sha256="0" * 64, url="http://127.0.0.1:9/x")
    point = ResumePoint(checkpoint_id="c", step=1, files=[file])
    with FakeControlPlane() as server, pytest.raises(StoreUnavailable, match="outside its folder"):
        await store_for(server, tmp_path).checkpoint_fetch(point, tmp_path / "state-3")


async def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(volume_module, "RESERVE_BYTES", 1 << 62)
    with FakeControlPlane() as server:
        with pytest.raises(DiskFull, match="MiB are needed"):
            await store_for(server, tmp_path).checkpoint_fetch(
                point_for(server), tmp_path / "state-3"
            )
        assert server.store_requests == []
    with pytest.raises(DiskFull), folder_publish(tmp_path / "model"):
        pytest.fail("the block must not run")


def test_a_folder_is_published_whole_or_not_at_all(tmp_path):
    target = tmp_path / "model"
    with pytest.raises(KeyError), folder_publish(target) as unfinished:
        (unfinished / "half").write_bytes(b"1")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    for content in (b"first", b"second"):
        with folder_publish(target) as unfinished:
            (unfinished / "weights").write_bytes(content)
    assert read_all(tmp_path) == {"model/weights": b"second"}


async def test_a_lost_volume_gets_its_journal_back(tmp_path):
    with FakeControlPlane() as server:
        stored = point_for(server, {"journal.sqlite3": b"rows"}).files[0]
        await store_for(server, tmp_path).journal_fetch(stored, tmp_path / "journal.sqlite3")
    assert (tmp_path / "journal.sqlite3").read_bytes() == b"rows"
