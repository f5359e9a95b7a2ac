"""Checkpoints are copied into the caller's project: bytes of their own, under a training run that
nothing trains.
"""

import json

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from console.asgi import application
from console.object_store import client as object_store
from console.sessions.checkpoints.checkpoints import checkpoint_key
from console.sessions.checkpoints.removal import Writing, removals_finish
from console.sessions.models import Checkpoint, Removal
from console.tinker import copies
from console.tinker.models import TinkerCheckpoint
from console.users.models import Project
from support.asgi_calls import Call
from support.real_stores import real_stores
from support.tinker_client import Client
from support.tinker_rows import checkpoint_store

pytestmark = pytest.mark.django_db(transaction=True)
WEIGHTS = b"weights of alice"
FILE = {"path": "weights.safetensors", "size_bytes": len(WEIGHTS), "sha256": "0" * 64}


@pytest.fixture
async def path(alices: Client, s3: str) -> str:
    """A state of alice's, in the store."""
    made = await alices.model(await alices.session())
    opened = await sync_to_async(checkpoint_store)(made["model_id"], "final")
    await written(opened.checkpoint_id)
    return f"tinker://{made['model_id']}/weights/final"


@sync_to_async
def written(checkpoint_id: str) -> None:
    row = Checkpoint.objects.get(id=checkpoint_id)
    Checkpoint.objects.filter(id=row.id).update(files=[FILE])
    object_store.put(checkpoint_key(row, FILE["path"]), WEIGHTS)


@sync_to_async
def bytes_of(path: str) -> tuple[bytes | None, dict]:
    row = TinkerCheckpoint.objects.select_related("checkpoint__session").get(
        model_id=path.split("/")[2]
    )
    manifest = json.loads(object_store.get(checkpoint_key(row.checkpoint, "manifest.json")))
    return object_store.get(checkpoint_key(row.checkpoint, FILE["path"])), manifest


async def test_a_copy_outlives_its_source_and_is_loaded_listed_and_deleted_like_any(
    alices: Client, path: str, project: Project
) -> None:
    copied = (
        await alices.post(
            "copy_weights", {"source_path": path, "destination_project_id": project.id}
        )
    )["tinker_path"]
    assert copied != path and copied.endswith("/weights/final")
    source = path.removeprefix("tinker://").replace("/weights", "/checkpoints/weights")
    assert (await alices.send("DELETE", f"training_runs/{source}"))[0] == 204
    stored, manifest = await bytes_of(copied)
    assert stored == WEIGHTS and manifest["files"] == [FILE]
    assert [each["tinker_path"] for each in (await alices.get("checkpoints"))["checkpoints"]] == [
        copied
    ]
    load = {
        "session_id": await alices.session(),
        "model_seq_id": 0,
        "path": copied,
        "optimizer": True,
    }
    assert (await alices.post("load_weights", load))["model_id"]
    run = copied.removeprefix("tinker://").partition("/")[0]
    assert "stopped" in await alices.mistake("optim_step", {"model_id": run, "seq_id": 1})
    assert (await alices.send("DELETE", f"training_runs/{run}/checkpoints/weights/final"))[0] == 204


async def test_a_request_that_comes_again_makes_no_second_copy(
    alices: Client, path: str, project: Project
) -> None:
    slot = {
        "session_id": await alices.session(),
        "model_seq_id": 4,
        "source_path": path,
        "ttl_seconds": 7200,
    }
    first = await alices.post("copy_weights", slot)
    assert first == await alices.post("copy_weights", slot)
    assert first["tinker_path"] == f"tinker://{slot['session_id']}:train:4/weights/final"
    body = json.dumps({"source_path": path, "destination_project_id": project.id}).encode()
    answers = [
        json.loads(
            (await Call(application, "POST", "/api/v1/copy_weights", body=body, x_api_key=alices.secret,
                        x_idempotency_key=key).answer())[2]
        )
        for key in ("one", "one", "two")
    ]  # fmt: skip
    assert answers[0] == answers[1] != answers[2]
    assert len((await alices.get("checkpoints"))["checkpoints"]) == 4


async def test_what_is_copied_is_what_the_caller_may_read_to_where_it_may_write(
    alices: Client, eves: Client, path: str, project: Project
) -> None:
    slot = {"session_id": await eves.session(), "model_seq_id": 0, "source_path": path}
    assert (await eves.send("POST", "copy_weights", slot))[0] == 404
    elsewhere = {"source_path": path, "destination_project_id": "prj_x"}
    assert (await alices.send("POST", "copy_weights", elsewhere))[0] == 404
    for wrong in (
        slot | {"destination_project_id": project.id},
        {"source_path": path},
        slot | {"session_id": None},
    ):
        assert (await eves.send("POST", "copy_weights", wrong))[0] == 400
    assert (await eves.send("POST", "copy_weights", slot | {"ttl_seconds": 5}))[0] == 400
    copied = (await eves.post("copy_weights", slot | {"weights_access_token": alices.secret}))[
        "tinker_path"
    ]
    assert (await bytes_of(copied))[0] == WEIGHTS
    assert (await alices.send("POST", "weights_info", {"tinker_path": copied}))[0] == 404
    row = await TinkerCheckpoint.objects.select_related("checkpoint__session").aget(
        model_id=copied.split("/")[2]
    )
    assert row.checkpoint.session.project_id != project.id, "it counts where it was copied to"


async def test_a_copy_that_the_store_does_not_make_leaves_no_row(
    alices: Client, path: str, project: Project
) -> None:
    await sync_to_async(Checkpoint.objects.update)(files=[FILE, FILE | {"path": "gone"}])
    body = {"source_path": path, "destination_project_id": project.id}
    status, said = await alices.send("POST", "copy_weights", body)
    assert status == 503 and "did not copy" in said["detail"]
    assert len((await alices.get("checkpoints"))["checkpoints"]) == 1
    assert await sync_to_async(Removal.objects.count)() == 1


@real_stores
async def test_a_copy_that_is_killed_leaves_no_bytes_for_ever(
    alices: Client, path: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first byte a row says what goes if nothing else comes; while it is written it
    stays.
    """
    body = {"source_path": path, "destination_project_id": project.id}
    written_keys: list[str] = []

    def killed(source: str, key: str, *, size_bytes: int) -> None:
        object_store.copy(source, key, size_bytes=size_bytes)
        removals_finish()
        assert object_store.get(key) == WEIGHTS, "it is being written"
        written_keys.append(key)
        raise OSError("as a kill would end it")

    monkeypatch.setattr(copies, "copy", killed)
    with monkeypatch.context() as patched:
        patched.setattr(Writing, "give_up", lambda self: None)  # nothing is done after a kill
        assert (await alices.send("POST", "copy_weights", body))[0] == 500
    await sync_to_async(removals_finish)()
    assert await sync_to_async(object_store.get)(written_keys[0]) == WEIGHTS
    await Removal.objects.aupdate(due_at=timezone.now())
    await sync_to_async(removals_finish)()
    assert await sync_to_async(object_store.get)(written_keys[0]) is None
    assert not await Removal.objects.aexists()
    monkeypatch.undo()
    copied = (await alices.post("copy_weights", body))["tinker_path"]
    assert (await bytes_of(copied))[0] == WEIGHTS and not await Removal.objects.aexists()


async def test_a_copy_that_took_too_long_makes_no_row_of_bytes_that_are_gone(
    alices: Client, path: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(source: str, key: str, *, size_bytes: int) -> None:
        object_store.copy(source, key, size_bytes=size_bytes)
        Removal.objects.update(due_at=timezone.now())
        removals_finish()

    monkeypatch.setattr(copies, "copy", late)
    body = {"source_path": path, "destination_project_id": project.id}
    status, said = await alices.send("POST", "copy_weights", body)
    assert status == 503 and "took longer" in said["detail"]
    assert len((await alices.get("checkpoints"))["checkpoints"]) == 1
