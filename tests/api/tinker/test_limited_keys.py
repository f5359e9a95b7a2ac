"""A key with a list of models or a spend cap, and what another key of its project has made by the
Tinker wire.
"""

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from console.users.keys import key_create
from console.users.models import Project, User
from support.factories import BASE_MODEL, EVERY_SCOPE
from support.tinker_client import Client
from support.tinker_harness import step, training
from support.tinker_rows import checkpoint_store

pytestmark = pytest.mark.django_db(transaction=True)
LIMITS = [{"allowed_models": ["another-model"]}, {"spend_cap_s": 60}]
Calls = list[tuple[str, str, Any]]


async def limited(project: Project, user: User, **limits: Any) -> Client:
    make = sync_to_async(key_create)
    return Client(
        (await make(project=project, user=user, name="limited", scopes=EVERY_SCOPE, **limits))[1]
    )


async def made_by(client: Client) -> tuple[Calls, Calls]:
    """Every call that changes what the client makes here, or has it run; then those whose refusal
    is in a future.
    """
    session = await client.session()
    promised = await client.model(session)
    model, promise = promised["model_id"], {"request_id": promised["request_id"]}
    await sync_to_async(checkpoint_store)(model, "a")
    sampler = {"session_id": session, "sampling_session_seq_id": 0, "base_model": BASE_MODEL}
    sampling = {
        "sampling_session_id": (await client.post("create_sampling_session", sampler))[
            "sampling_session_id"
        ]
    }
    named, kept = (
        {"model_id": model, "seq_id": 1, "path": "x"},
        f"training_runs/{model}/checkpoints/weights/a",
    )
    state = f"tinker://{model}/weights/a"
    calls: Calls = [
        ("POST", "session_heartbeat", {"session_id": session}),
        ("POST", "create_sampling_session", sampler | {"sampling_session_seq_id": 1}),
        ("POST", "forward_backward", training(1, model_id=model)),
        ("POST", "optim_step", step(1, model_id=model)),
        ("POST", "save_weights", named),
        ("POST", "save_weights_for_sampler", named),
        ("POST", "save_weights_external", named),
        (
            "POST",
            "load_weights",
            {"model_id": model, "seq_id": 1, "path": state, "optimizer": True},
        ),
        ("POST", "asample", sampling | {"seq_id": 0, "prompt": {"chunks": []}}),
        (
            "POST",
            "retrieve_futures",
            {"target": {"type": "sampling_session"} | sampling, "prev_cursor": 0},
        ),
        ("POST", "retrieve_future", promise),
        ("POST", "cancel_future", promise),
        ("POST", "copy_weights", {"session_id": session, "model_seq_id": 5, "source_path": state}),
        ("POST", "join_sampling_session", sampling),
        ("POST", "telemetry", {"session_id": session, "events": []}),
        ("PUT", f"{kept}/ttl", {"ttl_seconds": 7200}),
        ("POST", f"{kept}/publish", None),
        ("DELETE", f"{kept}/publish", None),
        ("DELETE", kept, None),
        ("POST", f"sessions/{session}/finish", {"reason": {"type": "success"}}),
    ]
    futures: Calls = [
        (
            "POST",
            "create_model",
            {"session_id": session, "model_seq_id": 7, "base_model": BASE_MODEL},
        ),
        (
            "POST",
            "load_weights",
            {"session_id": session, "model_seq_id": 8, "path": state, "optimizer": True},
        ),
    ]
    return calls, futures


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: next(iter(limits)))
async def test_a_limited_key_changes_and_runs_nothing_outside_its_limits(
    limits: dict[str, Any], alices: Client, project: Project, alice: User
) -> None:
    calls, futures = await made_by(alices)
    client = await limited(project, alice, **limits)
    for method, path, body in calls:
        status, answer = await client.send(method, path, body)
        assert status == 403, (method, path, status, answer)
    for _, path, body in futures:
        assert "This key" in await client.mistake(path, body), path
    (run,) = (await client.get("training_runs"))["training_runs"]
    assert run["last_checkpoint"]["public"] is False, "it reads the run, and nothing changed"


async def test_a_capped_key_uses_what_it_made_itself(project: Project, alice: User) -> None:
    client = await limited(project, alice, spend_cap_s=60)
    calls, futures = await made_by(client)
    for _, path, body in futures:
        await client.post(path, body)
    for method, path, body in calls:
        if path != "copy_weights":  # it copies, and there is no store here
            status, answer = await client.send(method, path, body)
            assert status not in (401, 403, 404), (method, path, status, answer)


async def test_a_key_of_other_models_copies_none_into_its_project(
    alices: Client, project: Project, alice: User
) -> None:
    model = (await alices.model(await alices.session()))["model_id"]
    await sync_to_async(checkpoint_store)(model, "a")
    narrow = await limited(project, alice, allowed_models=["another-model"])
    copy = {"source_path": f"tinker://{model}/weights/a", "destination_project_id": project.id}
    status, answer = await narrow.send("POST", "copy_weights", copy)
    assert status == 403 and BASE_MODEL in answer["detail"]
    copy = copy | {"session_id": await narrow.session(), "model_seq_id": 0}
    del copy["destination_project_id"]
    status, answer = await narrow.send("POST", "copy_weights", copy)
    assert status == 403 and BASE_MODEL in answer["detail"], "nor into a session of its own"
