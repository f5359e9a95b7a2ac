"""External weights of 0.39: files go to signed URLs, and a path comes back once they are the base
model's.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.utils import timezone

from console.asgi import application
from console.errors import StorageUnavailable
from console.object_store import client as object_store
from console.sessions.checkpoints.leftovers import uploads_sweep
from console.sessions.checkpoints.removal import removals_finish
from console.sessions.models import Checkpoint, Session, Upload
from console.tinker import external_uploads, uploaded_files
from console.tinker.external_uploads import (
    FINISH,
    MAX_OPEN,
    external_uploads_bound,
    external_uploads_expire,
)
from console.users.keys import key_create
from console.users.models import ApiKey, Project, User
from support.factories import EVERY_SCOPE
from support.real_stores import real_stores
from support.safetensors_bytes import safetensors_bytes
from support.tinker_client import Client

pytestmark = [pytest.mark.django_db(transaction=True), real_stores]
SHAPES = {"model.embed_tokens.weight": [5, 4], "model.norm.weight": [4]}
CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 0, "vocab_size": 5}
FILES = {
    "config.json": json.dumps(CONFIG).encode(), "model.safetensors": safetensors_bytes(SHAPES, dtype="BF16"),
    "tokenizer.json": b"{}",
}  # fmt: skip
START = {"base_model": "mine", "lora_config": {"rank": 8}}


@pytest.fixture
def base(tmp_path: Path, settings: Any, s3: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "mine" / "model.safetensors").write_bytes(safetensors_bytes(SHAPES))
    settings.EXTRA_MODELS = {"mine": str(tmp_path / "mine")}


async def put(urls: dict[str, str], files: dict[str, bytes]) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application)) as http:
        for name, body in files.items():
            assert (await http.put(urls[name], content=body)).status_code == 200


async def begun(client: Client, files: dict[str, bytes] = FILES) -> dict[str, Any]:
    started = await client.post("external_weights_upload_start", START)
    await put(started["urls"], files)
    return started


@sync_to_async
def kept(session_id: str) -> tuple[list[str], int]:
    """The names of what the store has of a session, and how many uploads are open there."""
    prefix = f"sessions/{session_id}/"
    names = sorted(key.rpartition("/")[2] for key in object_store.keys_under(prefix))
    return names, len(list(object_store.multipart_list(prefix)))


def finish(started: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return "POST", "external_weights_upload_finish", {"upload_id": started["upload_id"]}


@pytest.mark.usefixtures("base")
async def test_uploaded_weights_are_a_checkpoint_that_is_listed_downloaded_and_deleted(
    alices: Client, eves: Client, project: Project
) -> None:
    started = await begun(alices)
    assert datetime.fromisoformat(started["expires"]) > timezone.now()
    assert (await eves.send(*finish(started)))[0] == 404, "another project's is as good as none"
    assert (await alices.get("checkpoints"))["checkpoints"] == [], "no path before it is whole"
    path = (await alices.post(*finish(started)[1:]))["tinker_path"]
    assert (await alices.post(*finish(started)[1:]))["tinker_path"] == path, "a retry gets the same"
    (listed,) = (await alices.get("checkpoints"))["checkpoints"]
    assert (listed["tinker_path"], listed["checkpoint_type"], listed["base_model"]) == (
        path,
        "external",
        "mine",
    )
    assert listed["size_bytes"] == sum(map(len, FILES.values()))
    info = await alices.post("weights_info", {"tinker_path": path})
    assert (info["base_model"], info["is_lora"], info["lora_rank"]) == ("mine", True, 8)
    run, _, checkpoint = path.removeprefix("tinker://").partition("/")
    where = f"training_runs/{run}/checkpoints/{checkpoint}"
    urls = (await alices.get(f"{where}/external_weights_urls"))["urls"]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application)) as http:
        assert {name: (await http.get(url)).content for name, url in urls.items()} == FILES
        # The URL of the upload changes nothing any more.
        late = await http.put(started["urls"]["config.json"], content=b"{}")
        again = await http.get(urls["config.json"])
        assert again.content == FILES["config.json"], (late.status_code, late.text, again.text)
    for task in (external_uploads_expire, removals_finish):
        await sync_to_async(task)()
    session = await Session.objects.aget()
    assert await kept(session.id) == (sorted([*FILES, "manifest.json"]), 0)
    assert (await alices.send("DELETE", where))[0] == 204
    await sync_to_async(removals_finish)()
    assert await kept(session.id) == ([], 0)


@pytest.mark.usefixtures("base")
async def test_what_is_no_folder_of_the_base_gets_no_path_and_stays_nowhere(alices: Client) -> None:
    missing = await begun(alices, {"config.json": FILES["config.json"]})
    session = await Session.objects.aget()
    status, said = await alices.send(*finish(missing))
    assert status == 400 and "model.safetensors was not uploaded" in said["detail"]
    await put(
        missing["urls"],
        {"model.safetensors": safetensors_bytes(SHAPES | {"model.norm.weight": [5]})},
    )
    status, said = await alices.send(*finish(missing))
    assert status == 400 and "'model.norm.weight' has the shape [5]" in said["detail"]
    assert (await alices.send(*finish(missing)))[0] == 404, "it has ended with that"
    await sync_to_async(removals_finish)()
    assert await kept(session.id) == ([], 0)
    assert (
        not await Session.objects.aexists()
        and (await alices.get("checkpoints"))["checkpoints"] == []
    )


@pytest.mark.usefixtures("base")
async def test_an_upload_counts_against_the_projects_storage_from_its_start(
    alices: Client, project: Project
) -> None:
    started = await begun(alices)
    assert (await Checkpoint.objects.aget()).size_bytes == 4 * 24
    await Project.objects.filter(id=project.id).aupdate(storage_quota_bytes=4 * 24)
    assert (await alices.send("POST", "external_weights_upload_start", START))[0] == 402
    status, said = await alices.send(*finish(started))
    assert status == 402, "with its real size it is more than the project may have"
    await Project.objects.filter(id=project.id).aupdate(storage_quota_bytes=None)
    for _ in range(MAX_OPEN - 1):
        await alices.post("external_weights_upload_start", START)
    status, said = await alices.send("POST", "external_weights_upload_start", START)
    assert status == 402 and "not finished" in said["detail"]
    assert (await alices.post(*finish(started)[1:]))["tinker_path"]


@pytest.mark.usefixtures("base")
@pytest.mark.parametrize(
    "limits", [{"allowed_models": ["x"]}, {"spend_cap_s": 60}], ids=lambda each: next(iter(each))
)
async def test_a_limited_key_finishes_no_upload_that_another_key_has_begun(
    alices: Client, project: Project, alice: User, limits: dict[str, Any]
) -> None:
    started = await begun(alices)
    make = sync_to_async(key_create)
    narrow = await make(project=project, user=alice, name="narrow", scopes=EVERY_SCOPE, **limits)
    status, said = await Client(narrow[1]).send(*finish(started))
    assert status == 403 and "This key" in said["detail"]
    assert (await alices.post(*finish(started)[1:]))["tinker_path"], "it is still there for its own"


@pytest.mark.usefixtures("base")
async def test_two_requests_do_not_finish_an_upload_at_once(
    alices: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await ApiKey.objects.select_related("project").aget(project=project)
    started, verify = await begun(alices), external_uploads._verify  # noqa: SLF001 - where the second one comes
    seen: list[str] = []

    def verified(*arguments: Any) -> None:
        with pytest.raises(StorageUnavailable) as busy:
            external_uploads.external_upload_finish(key=key, upload_id=started["upload_id"])
        seen.append(busy.value.message)
        verify(*arguments)

    monkeypatch.setattr(external_uploads, "_verify", verified)
    assert (await alices.post(*finish(started)[1:]))["tinker_path"]
    assert "another request" in seen[0]


@pytest.mark.usefixtures("base")
async def test_uploads_that_nobody_finishes_are_removed_with_their_parts(alices: Client) -> None:
    started = await begun(alices)
    await sync_to_async(uploads_sweep)()
    await sync_to_async(external_uploads_expire)()
    session = await Session.objects.aget()
    assert await kept(session.id) == ([], len(started["urls"])), "its time is not over"
    old = timezone.now() - timedelta(seconds=django_settings.TRANSFER_URL_S + 1)
    await Upload.objects.aupdate(created_at=old)
    assert (await alices.send(*finish(started)))[0] == 404
    await sync_to_async(external_uploads_expire)()
    assert await Session.objects.aexists(), "a request that came in time may be at it"
    await Upload.objects.aupdate(created_at=old - FINISH)
    for task in (external_uploads_expire, removals_finish):
        await sync_to_async(task)()
    assert await kept(session.id) == ([], 0)
    assert not await Session.objects.aexists() and not await Upload.objects.aexists()


@pytest.mark.usefixtures("base")
async def test_an_upload_with_a_file_larger_than_any_may_be_is_ended_before_its_finish(
    alices: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = await begun(alices), await begun(alices, FILES | {"tokenizer.json": bytes(1001)})
    monkeypatch.setattr(uploaded_files, "MAX_SMALL_BYTES", 1000)
    await sync_to_async(external_uploads_bound)()
    assert (await alices.send(*finish(large)))[0] == 404
    await sync_to_async(removals_finish)()
    left = await sync_to_async(lambda: list(object_store.multipart_list("sessions/")))()
    open_ids = {key.split("/")[3] for key, _, _ in left}
    assert small["upload_id"] in open_ids and large["upload_id"] not in open_ids, (
        "its parts are gone"
    )
    assert (await alices.post(*finish(small)[1:]))["tinker_path"]


@pytest.mark.usefixtures("base")
async def test_what_cannot_be_uploaded_is_refused_at_the_start(
    alices: Client, project: Project, alice: User
) -> None:
    for wrong, wanted in (
        ({"base_model": "none"}, 400), ({"destination_project_id": "prj_x"}, 404), ({"lora_config": {"rank": -1}}, 400),
        ({"more": 1}, 400), ({"base_model": "SmolLM2-135M-Instruct-none"}, 400),
    ):  # fmt: skip
        status, said = await alices.send("POST", "external_weights_upload_start", START | wrong)
        assert status in (wanted, 404), said
    made = await sync_to_async(key_create)(
        project=project, user=alice, name="narrow", scopes=EVERY_SCOPE, allowed_models=["x"]
    )
    assert (await Client(made[1]).send("POST", "external_weights_upload_start", START))[0] == 403
    assert not await Upload.objects.aexists()
    mine = START | {"destination_project_id": project.id}
    assert (await alices.post("external_weights_upload_start", mine))["upload_id"]
