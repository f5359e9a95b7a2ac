"""Clients of one project on one base model: one runtime, and ids, usage and an end of each its own."""

import json
from typing import Any

import pytest
from aiohttp import web
from asgiref.sync import sync_to_async

from console.scheduling.launchers.options import LauncherOptions
from console.scheduling.launchers.protocol import Resources
from console.sessions.limits.devices import devices_sync
from console.sessions.models import Session
from console.sessions.runtime.leases import lease_issue
from console.tinker import runtimes, work
from console.tinker.models import TinkerRuntime
from console.users.keys import key_create
from console.users.models import Project, User
from support.asgi_calls import FakeGateway
from support.factories import BASE_MODEL, EVERY_SCOPE
from support.tinker_client import Client
from support.tinker_harness import step
from tinkerscript.wire.tinker.messages import ClientsServed, TokensUsed, WorkReport

pytestmark = pytest.mark.django_db(transaction=True)
DONE = {"reason": {"type": "success"}}


async def sampler(client: Client, session: str) -> str:
    """Our session of a base model's sampler."""
    body = {"session_id": session, "sampling_session_seq_id": 0, "base_model": BASE_MODEL}
    made = await client.post("create_sampling_session", body)
    return made["sampling_session_id"].rpartition(":")[2]


def runtime_of(made: dict[str, Any]) -> str:
    return made["request_id"].partition("|")[0]


async def test_two_programs_of_a_project_share_a_runtime_that_ends_with_the_last_of_them(
    alices: Client, gateway: FakeGateway
) -> None:
    trainer, evaluator = await alices.session(), await alices.session()
    trained, compared = await alices.model(trainer), await alices.model(evaluator)
    shared = runtime_of(trained)
    assert runtime_of(compared) == shared == await sampler(alices, evaluator)
    assert trained["model_id"] != compared["model_id"]
    assert trained["request_id"] != compared["request_id"], "both are the first of their clients"
    await Session.objects.filter(id=shared).aupdate(state="ready", address=gateway.address)
    await alices.post(f"sessions/{trainer}/finish", DONE, status=204)
    row = await Session.objects.aget(id=shared)
    assert (row.state, row.desired) == ("ready", "run"), "the evaluator is there"
    over = sync_to_async(runtimes.clients_over)
    served = ClientsServed(clients=[trainer, evaluator, "tnk_none"])
    assert (await over(session=row, body=served)).over == [trainer, "tnk_none"]

    async def unknown(request: web.Request) -> web.Response:
        return web.json_response({"detail": "there is no model"}, status=404)

    gateway.answer = unknown  # which has nothing of the trainer any more
    assert "finished" in await alices.mistake("optim_step", step(1, model_id=trained["model_id"]))
    status, _ = await alices.send("POST", "optim_step", step(1, model_id=compared["model_id"]))
    assert status == 404, "of one that goes on it is what the runtime says"
    await alices.post(f"sessions/{evaluator}/finish", DONE, status=204)
    assert (await Session.objects.aget(id=shared)).desired == "stop"
    assert runtime_of(await alices.model(await alices.session())) != shared


async def test_no_project_and_no_capped_key_shares_with_another(
    alices: Client, eves: Client, project: Project, alice: User
) -> None:
    own = runtime_of(await alices.model(await alices.session()))
    assert runtime_of(await eves.model(await eves.session())) != own
    _, secret = await sync_to_async(key_create)(
        project=project, user=alice, name="capped", scopes=EVERY_SCOPE, spend_cap_s=60
    )
    capped = Client(secret)
    alone = runtime_of(await capped.model(await capped.session()))
    assert alone != own
    assert runtime_of(await alices.model(await alices.session())) == own
    assert runtime_of(await capped.model(await capped.session())) == alone


async def test_all_weights_are_trained_beside_no_other_client_and_anyone_may_sample(
    alices: Client,
) -> None:
    first = runtime_of(await alices.model(adapters := await alices.session()))
    whole = await alices.model(await alices.session(), lora_config={"rank": 0})
    assert runtime_of(whole) != first
    assert runtime_of(await alices.model(await alices.session())) == first
    await alices.post(f"sessions/{adapters}/finish", DONE, status=204)
    await Session.objects.filter(id=first).aupdate(state="stopped")
    await TinkerRuntime.objects.filter(session_id=first).adelete()
    assert await sampler(alices, await alices.session()) == runtime_of(whole)
    assert runtime_of(await alices.model(await alices.session())) not in {first, runtime_of(whole)}


async def test_all_weights_are_trained_on_a_rank_for_each_device_but_the_engines(
    alices: Client, settings
) -> None:
    settings.MAX_RUNTIMES = 1
    settings.LAUNCHER = LauncherOptions(name="process", resources=Resources(gpus=4))
    await sync_to_async(devices_sync)(ids=["0", "1", "2", "3"])
    for rank, ranks in ((0, 3), (8, 1)):
        model = await alices.model(await alices.session(), lora_config={"rank": rank})
        session = await Session.objects.aget(id=runtime_of(model))
        assert (session.config["trainer_ranks"], session.devices) == (ranks, 4)


async def test_a_later_adapter_may_be_larger_than_the_first(alices: Client) -> None:
    session = await alices.session()
    small = await alices.model(session, lora_config={"rank": 8})
    large = await alices.model(session, 1, lora_config={"rank": 64})
    assert runtime_of(large) == runtime_of(small)
    row = await Session.objects.aget(id=runtime_of(small))
    assert row.config["lora_rank"] == 64, "a later runtime begins with room for it"


async def test_usage_is_each_clients_own(alices: Client) -> None:
    first, second = await alices.session(), await alices.session()
    shared = runtime_of(await alices.model(first))
    await alices.model(second)

    @sync_to_async
    def tell() -> None:
        lease_issue(session=Session.objects.get(id=shared))
        trained = {first: 5, second: 7, "tnk_none": 9}
        tokens = {client: TokensUsed(training=count) for client, count in trained.items()}
        body = WorkReport(key="1", tokens=tokens, spans=[])
        work.work_record(session=Session.objects.get(id=shared), body=body)

    await tell()
    events = (await alices.get("billing/usage/events"))["data"]
    counts = {event["session_id"]: event["event_info"]["token_count"] for event in events}
    assert counts == {first: 5, second: 7}


async def test_seeds_as_they_are_are_asked_for_by_the_client(
    alices: Client, gateway: FakeGateway
) -> None:
    wrong = {"user_metadata": {"sampling_seeds": "exactly"}}
    status, answer = await alices.send("POST", "create_session", wrong)
    assert status == 400 and "'exact' or 'mixed'" in answer["detail"]
    for metadata, exact in (({}, False), ({"sampling_seeds": "exact"}, True)):
        session = (await alices.post("create_session", {"user_metadata": metadata}))["session_id"]
        made = await alices.model(session)
        served = Session.objects.filter(id=runtime_of(made))
        await served.aupdate(state="ready", address=gateway.address)
        await alices.send("POST", "optim_step", step(1, model_id=made["model_id"]))
        body = {"session_id": session, "sampling_session_seq_id": 0, "base_model": BASE_MODEL}
        sampling = (await alices.post("create_sampling_session", body))["sampling_session_id"]
        await alices.send("POST", "asample", {"sampling_session_id": sampling, "seq_id": 0})
        told = [
            json.loads(sent) for request, sent in gateway.requests if "/tinker/" in request.path
        ]
        assert [each["exact_seeds"] for each in told[-2:]] == [exact, exact]
