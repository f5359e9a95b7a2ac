"""What is changed by the Tinker wire is in the project's audit log."""

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from api.tinker.routes import wire
from console.audit.models import AuditRecord
from console.users.models import Project, User
from support.tinker_client import Client
from support.tinker_rows import checkpoint_store

pytestmark = pytest.mark.django_db(transaction=True)
ACTIONS = {
    "tinker_session_finish", "checkpoint_delete", "checkpoint_publish", "checkpoint_unpublish", "checkpoint_ttl",
    "key_revoke",
}  # fmt: skip
READ_BY_POST = {
    "client_config", "client_dynamic_config", "model_info", "weights_info", "sessions_search", "checkpoints_search",
}  # fmt: skip
BY_THEMSELVES = {"weights_copy": "checkpoint_copy", "external_upload_finish": "checkpoint_upload"}
WITHOUT = {
    "session_create": "it holds nothing until a model of it is named, and the start of its runtime has an entry",
    "model_create": "the start of its runtime has an entry; more models of it are rows that the run shows",
    "sampler_create": "one for each step of a training loop; the start of its runtime has an entry",
    "session_heartbeat": "every ten seconds", "telemetry": "it is on the record of the session",
    "sampling_session_join": "a counter",
    "session_project_set": "a session stays where it is", "auth_token": "it is the key that it names; nothing is kept",
    "external_upload_start": "nothing is in the store before the upload is finished, which has an entry",
}  # fmt: skip


def test_every_call_that_changes_something_has_an_entry_or_a_reason() -> None:
    changing = {
        route.view.__name__
        for route in wire
        if not (route.method == "GET" or route.is_async or route.audit)
    }
    assert changing == READ_BY_POST | BY_THEMSELVES.keys() | WITHOUT.keys()
    assert {route.audit for route in wire} - {""} == ACTIONS


@sync_to_async
def entries(project: Project) -> list[dict[str, Any]]:
    records = AuditRecord.objects.filter(project_id=project.id).order_by("number")
    return [json.loads(content) for content in records.values_list("content", flat=True)]


async def test_who_publishes_lets_expire_deletes_or_ends_is_written_down(
    alices: Client, eves: Client, project: Project, alice: User
) -> None:
    model = (await alices.model(session := await alices.session()))["model_id"]
    await sync_to_async(checkpoint_store)(model, "a")
    path = f"training_runs/{model}/checkpoints/weights/a"
    before = len(await entries(project))
    calls = [
        ("POST", f"{path}/publish", None, "checkpoint_publish"),
        ("DELETE", f"{path}/publish", None, "checkpoint_unpublish"),
        ("PUT", f"{path}/ttl", {"ttl_seconds": 7200}, "checkpoint_ttl"),
        ("DELETE", path, None, "checkpoint_delete"),
        (
            "POST",
            f"sessions/{session}/finish",
            {"reason": {"type": "success"}},
            "tinker_session_finish",
        ),
        ("DELETE", "auth/apikey/me", None, "key_revoke"),
    ]
    for method, where, body, _ in calls:
        assert (await eves.send(method, where, body))[0] in (204, 404)
        assert (await alices.send(method, where, body))[0] == 204
    found = (await entries(project))[before:]
    assert [entry["action"] for entry in found] == [action for *_, action in calls], (
        "and none of what was refused"
    )
    assert {(entry["actor"], entry["project_id"]) for entry in found} == {(alice.email, project.id)}
    assert found[0]["target"] == {"model_id": model, "segment": "weights", "name": "a"}
    assert found[2]["details"] == {"ttl_seconds": 7200}
    assert len({entry["key_id"] for entry in found}) == 1 and found[-1]["target"] == {
        "key_id": found[0]["key_id"]
    }
