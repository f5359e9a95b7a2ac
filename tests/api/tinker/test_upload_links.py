"""The links of an upload of external weights, and who may finish one: with a store in this process.

test_external_uploads.py has the rest, with real stores.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from asgiref.sync import sync_to_async

from console.object_store.links import link_of
from console.tinker.uploaded_files import OPTIONAL, REQUIRED, most_bytes
from console.users.keys import key_create
from console.users.models import Project, User
from support.factories import EVERY_SCOPE
from support.safetensors_bytes import safetensors_bytes
from support.tinker_client import Client

pytestmark = pytest.mark.django_db(transaction=True)
CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 0, "vocab_size": 5}
START = {"base_model": "mine", "lora_config": {"rank": 8}}


@pytest.fixture(autouse=True)
def base(tmp_path: Path, settings: Any, memory_store: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes({"model.norm.weight": [4]}))
    settings.EXTRA_MODELS = {"mine": str(tmp_path)}


async def finished(client: Client, upload_id: str) -> tuple[int, Any]:
    return await client.send("POST", "external_weights_upload_finish", {"upload_id": upload_id})


async def test_each_link_takes_no_larger_file_than_any_of_its_name_may_be(alices: Client) -> None:
    urls = (await alices.post("external_weights_upload_start", START))["urls"]
    links = {name: link_of(unquote(urlsplit(url).path)) for name, url in urls.items()}
    assert {name: (link.method, link.name) for name, link in links.items()} == {
        name: ("PUT", name) for name in (*REQUIRED, *OPTIONAL)
    }
    assert all(link.most_bytes == most_bytes(name) > 0 for name, link in links.items())


async def test_another_projects_upload_is_as_good_as_none(alices: Client, eves: Client) -> None:
    started = await alices.post("external_weights_upload_start", START)
    foreign = await finished(eves, started["upload_id"])
    assert foreign == await finished(eves, "upl_0123456789abcdef") and foreign[0] == 404
    status, said = await finished(alices, started["upload_id"])
    assert status == 400 and "was not uploaded" in said["detail"], "it is there for its own project"


@pytest.mark.parametrize(
    "limits", [{"allowed_models": ["x"]}, {"spend_cap_s": 60}], ids=lambda each: next(iter(each))
)
async def test_a_limited_key_finishes_no_upload_of_another_key(
    alices: Client, project: Project, alice: User, limits: dict[str, Any]
) -> None:
    started = await alices.post("external_weights_upload_start", START)
    _, secret = await sync_to_async(key_create)(
        project=project, user=alice, name="narrow", scopes=EVERY_SCOPE, **limits
    )
    status, said = await finished(Client(secret), started["upload_id"])
    assert status == 403 and "This key" in said["detail"]
    assert (await finished(alices, started["upload_id"]))[0] == 400, "it is still there"
