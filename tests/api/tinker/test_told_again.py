"""What a runtime is told of a model and a sampler once more, at another address or after their
checkpoint is gone.
"""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async

from console.sessions.models import Checkpoint, Session
from support.asgi_calls import FakeGateway
from support.tinker_client import Client
from support.tinker_harness import step
from support.tinker_rows import checkpoint_store

pytestmark = pytest.mark.django_db(transaction=True)
stored = sync_to_async(checkpoint_store)


async def test_a_runtime_is_told_of_what_it_has_whether_or_not_the_source_is_still_there(
    alices: Client, gateway: FakeGateway
) -> None:
    of = (await alices.model(await alices.session()))["model_id"]
    await stored(of, "a")
    await stored(of, "a", "sampler_weights", 2)
    session_id = await alices.session()
    paths = {segment: f"tinker://{of}/{segment}/a" for segment in ("weights", "sampler_weights")}
    loaded = await alices.post(
        "load_weights",
        {"session_id": session_id, "model_seq_id": 0, "path": paths["weights"], "optimizer": True},
    )
    sampler = {
        "session_id": session_id,
        "sampling_session_seq_id": 0,
        "model_path": paths["sampler_weights"],
    }
    sampler_id = (await alices.post("create_sampling_session", sampler))["sampling_session_id"]
    source_id = await Checkpoint.objects.values_list("id", flat=True).aget(
        tinker__segment="weights"
    )
    for segment in paths:
        assert (await alices.send("DELETE", f"training_runs/{of}/checkpoints/{segment}/a"))[
            0
        ] == 204
    own = loaded["request_id"].partition("|")[0]
    await Session.objects.filter(id=own).aupdate(state="ready", address=gateway.address)
    await alices.post("optim_step", step(1, model_id=loaded["model_id"]))
    await alices.post("asample", {"sampling_session_id": sampler_id, "seq_id": 0})
    of_model, of_sampler = (
        json.loads(body) for request, body in gateway.requests if "/tinker/" in request.path
    )
    assert of_model["source"] == {
        "path": paths["weights"], "checkpoint_id": source_id, "files": [], "optimizer": True,
    }  # fmt: skip
    assert of_sampler["model_path"] == paths["sampler_weights"] and not of_sampler["files"]
    assert of_sampler["checkpoint_id"], (
        "without one a runtime that does not know it would sample from the base"
    )


async def test_the_next_runtime_is_told_that_the_model_was_made_before(
    alices: Client, gateway: FakeGateway
) -> None:
    made = await alices.model(await alices.session())
    own, following = made["request_id"].partition("|")[0], FakeGateway()
    await following.start()
    try:
        for runtime in (gateway, following):
            await Session.objects.filter(id=own).aupdate(state="ready", address=runtime.address)
            await until_routed(alices, made["model_id"], runtime)
    finally:
        await following.stop()
    first, then = (json.loads(runtime.requests[0][1]) for runtime in (gateway, following))
    assert (first["made_before"], then["made_before"]) == (False, True)


async def until_routed(client: Client, model_id: str, runtime: FakeGateway) -> None:
    """Addresses are looked up once in a while."""
    async with asyncio.timeout(20):
        while not runtime.requests:
            await client.post("optim_step", step(1, model_id=model_id))
            await asyncio.sleep(0.01)
