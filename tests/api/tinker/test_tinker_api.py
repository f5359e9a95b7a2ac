"""The Tinker wire at the control plane: bookkeeping, whose ids are whose, and what is passed on to
a runtime.
"""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from asgiref.sync import sync_to_async
from django.utils import timezone

from console.live.models import EventRecord
from console.sessions.models import Checkpoint, Session
from console.tinker.checkpoints import checkpoints_replaced_remove
from console.tinker.models import TinkerSession
from console.tinker.services import tinker_sessions_vanished_finish
from console.users.models import Project, User
from support.asgi_calls import FakeGateway
from support.factories import BASE_MODEL, key_make
from support.tinker_client import Client
from support.tinker_harness import step, training
from support.tinker_rows import checkpoint_store
from tinkerscript.wire.account import Scope

pytestmark = pytest.mark.django_db(transaction=True)


stored = sync_to_async(checkpoint_store)


async def serve(session_id: str, gateway: FakeGateway) -> None:
    """The session's runtime is ``gateway`` from now on."""
    await Session.objects.filter(id=session_id).aupdate(state="ready", address=gateway.address)


async def test_a_model_gets_a_session_of_its_own_kind_and_the_promise_names_it(
    alices: Client,
) -> None:
    session_id = await alices.session()
    first = await alices.model(session_id)
    assert first["model_id"] == f"{session_id}:train:0"
    assert await alices.model(session_id) == first, "a retry gets the same"
    row = await Session.objects.aget()
    assert (row.kind, row.name, row.config["lora_rank"]) == ("tinker", "mine", 32)
    assert first["request_id"] == f"{row.id}|train:{session_id}:train:0:0"
    second = await alices.model(session_id, 1)
    assert second["request_id"] == f"{row.id}|train:{session_id}:train:1:0", (
        "models of one base share a runtime"
    )
    info = await alices.post("get_info", {"model_id": first["model_id"]})
    assert (info["is_lora"], info["lora_rank"], info["model_data"]["model_name"]) == (
        True,
        8,
        BASE_MODEL,
    )
    sampler = await alices.post(
        "create_sampling_session",
        {"session_id": session_id, "sampling_session_seq_id": 0, "base_model": BASE_MODEL},
    )
    assert sampler["sampling_session_id"] == f"{session_id}:sample:0:{row.id}"
    assert (await alices.get(f"samplers/{sampler['sampling_session_id']}"))[
        "base_model"
    ] == BASE_MODEL
    found = await alices.get(f"sessions/{session_id}")
    assert found["training_run_ids"] == [first["model_id"], second["model_id"]]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("create_model", {"base_model": "nothing"}, "nothing"),
        ("create_model", {"lora_config": {"rank": 300}}, "256"),
        ("create_model", {"lora_config": {"rank": 8, "dropout": 0.1}}, "lora_config.dropout"),
        ("create_model", {"optimizer_config": {"type": "dimuon", "version": 1}}, "optimizer_config"),
        ("create_model", {"other": 1}, "other"),
        ("create_sampling_session", {}, "base_model or model_path"),
        ("create_sampling_session", {"model_path": "tinker://x"}, "no path of the form"),
        ("load_weights", {"path": "tinker://a:train:0/nonsense/b", "optimizer": True}, "no path of the form"),
    ],
)  # fmt: skip
async def test_a_mistake_is_refused_by_name_through_the_future_where_there_is_one(
    alices: Client, path: str, body: dict[str, Any], said: str
) -> None:
    session_id = await alices.session()
    whole = {"session_id": session_id}
    if path == "create_model":
        whole |= {"model_seq_id": 0, "base_model": BASE_MODEL}
    else:
        whole |= {"model_seq_id": 0} if path == "load_weights" else {"sampling_session_seq_id": 0}
    if path == "create_sampling_session":
        status, answer = await alices.send("POST", path, whole | body)
        assert status == 400 and said in answer["detail"], answer
    else:
        assert said in await alices.mistake(path, whole | body)


async def test_a_call_that_is_not_there_says_so_with_its_name(alices: Client) -> None:
    status, answer = await alices.send("GET", "nonsense")
    assert status == 404 and "nonsense" in answer["detail"]
    assert (await alices.send("GET", "create_model"))[0] == 405


async def test_a_nul_is_refused_before_a_database_sees_it(alices: Client) -> None:
    for method, path, body in (
        ("POST", "create_session", {"display_name": "a\0"}),
        ("POST", "create_session", {"user_metadata": {"a\0": "b"}}),
        ("GET", "training_runs/a%00", None),
        ("GET", "training_runs?project_id=a%00", None),
        ("POST", "forward_backward", training(1, model_id="a\0")),
    ):
        status, answer = await alices.send(method, path, body)
        assert status == 400 and "NUL" in answer["detail"], (path, answer)
    assert (await alices.post("create_session", {"display_name": "a\\u0000"}))["session_id"], (
        "no NUL, but its name"
    )


async def test_without_a_good_key_nothing_is_said(
    alices: Client, project: Project, alice: User
) -> None:
    for secret in ("", "tml-ts_wrong", "x" * 5000):
        assert (await Client(secret).send("POST", "client/config", {}))[0] == 401
    reader = Client(await sync_to_async(key_make)(project, alice, [Scope.SESSIONS_READ]))
    status, answer = await reader.send("POST", "client/config", {})
    assert status == 403 and "episodes" in answer["detail"]


async def test_bytes_are_passed_on_as_they_came_after_the_runtime_was_told_of_the_model(
    alices: Client, gateway: FakeGateway
) -> None:
    made = await alices.model(await alices.session())
    session_id = made["request_id"].partition("|")[0]
    await serve(session_id, gateway)
    body = training(1, model_id=made["model_id"])
    for _ in range(2):
        assert await alices.post("forward_backward", body) == {"path": "/api/v1/forward_backward"}
    paths = [request.path for request, _ in gateway.requests]
    assert paths == ["/tinker/models", "/api/v1/forward_backward", "/api/v1/forward_backward"]
    told = json.loads(gateway.requests[0][1])
    assert (told["model_id"], told["lora"]["rank"]) == (made["model_id"], 8)
    assert told["lora"]["seed"] == 0, (
        "the model's number: the same program begins with the same adapter"
    )
    assert gateway.requests[1][1] == body
    assert all(request.headers["X-Relay-Key"] for request, _ in gateway.requests)
    assert "X-API-Key" not in gateway.requests[1][0].headers, "a runtime never sees a key"


async def test_the_runtimes_answer_comes_back_as_it_is(
    alices: Client, gateway: FakeGateway
) -> None:
    made = await alices.model(await alices.session())
    await serve(made["request_id"].partition("|")[0], gateway)

    async def pending(request: web.Request) -> web.Response:
        return web.json_response({"queue_state": "active"}, status=408)

    gateway.answer = pending
    assert await alices.send("POST", "retrieve_future", {"request_id": made["request_id"]}) == (
        408,
        {"queue_state": "active"},
    )


async def test_while_there_is_no_runtime_each_kind_of_request_gets_what_its_client_waits_on(
    alices: Client,
) -> None:
    session_id = await alices.session()
    made = await alices.model(session_id)
    status, answer = await alices.send(
        "POST", "retrieve_future", {"request_id": made["request_id"]}
    )
    assert (
        status == 408
        and answer["queue_state"] == "paused_capacity"
        and "queued" in answer["queue_state_reason"]
    )
    status, answer = await alices.send("POST", "optim_step", step(1, model_id=made["model_id"]))
    assert status == 402 and "number 1 in the queue" in answer["detail"], (
        "a client waits for an hour, not 5 minutes"
    )
    sampler = {"session_id": session_id, "sampling_session_seq_id": 0, "base_model": BASE_MODEL}
    sampling_id = (await alices.post("create_sampling_session", sampler))["sampling_session_id"]
    assert (
        await alices.send("POST", "asample", {"sampling_session_id": sampling_id, "seq_id": 0})
    )[0] == 429
    await Session.objects.aupdate(
        state="failed", failure={"code": "x", "cause": "It broke.", "hint": ""}
    )
    status, answer = await alices.send(
        "POST", "retrieve_future", {"request_id": made["request_id"]}
    )
    assert status == 200 and answer["category"] == "server" and "It broke." in answer["error"]
    assert (await alices.send("POST", "optim_step", step(1, model_id=made["model_id"])))[0] == 400
    await Session.objects.aupdate(state="stopped", failure=None)
    ended = {"request_id": made["request_id"]}
    async with asyncio.timeout(20):
        while (await alices.post("retrieve_future", ended))["category"] != "user":
            await asyncio.sleep(0.01)  # states are looked up once in a while
    assert "stopped" in await alices.mistake("optim_step", step(1, model_id=made["model_id"]))
    sample = {"sampling_session_id": sampling_id, "seq_id": 1, "num_samples": 3}
    assert len((await alices.post("asample", sample))["sample_sequence_ids"]) == 3
    assert "stopped" in await alices.mistake("asample", sample)


async def test_a_session_that_could_not_go_on_shows_why(alices: Client) -> None:
    made = await alices.model(await alices.session())
    session_id = made["request_id"].partition("|")[0]
    await Session.objects.filter(id=session_id).aupdate(
        state="suspended", address="", base_model="of-another-server"
    )
    assert "of-another-server" in await alices.mistake(
        "optim_step", step(1, model_id=made["model_id"])
    )


async def test_names_are_taken_once_listed_expire_and_go(alices: Client) -> None:
    made = await alices.model(await alices.session(), user_metadata={"renderer_name": "qwen3"})
    run = f"training_runs/{made['model_id']}"
    first = await stored(made["model_id"], "a", user_metadata={"k": "v"})
    assert (await stored(made["model_id"], "a")).is_stored, (
        "the same operation, once more after a kill"
    )
    assert "is there" in (await stored(made["model_id"], "a", seq_id=2)).refusal
    replaced = await stored(made["model_id"], "a", seq_id=3, overwrite=True)
    await stored(made["model_id"], "a", "sampler_weights", seq_id=4)
    await sync_to_async(checkpoints_replaced_remove)()
    assert not await Checkpoint.objects.filter(id=first.checkpoint_id).aexists()
    assert await Checkpoint.objects.filter(id=replaced.checkpoint_id).aexists()
    listed = (await alices.get(f"{run}/checkpoints"))["checkpoints"]
    assert [row["tinker_path"] for row in listed] == [
        f"tinker://{made['model_id']}/sampler_weights/a",
        f"tinker://{made['model_id']}/weights/a",
    ]
    seen = await alices.get(run)
    assert (
        seen["user_metadata"] == {"renderer_name": "qwen3"}
        and seen["last_checkpoint"]["size_bytes"] == 7
    )
    assert (await alices.get("training_runs"))["cursor"] == {
        "offset": 0,
        "limit": 20,
        "total_count": 1,
    }
    assert (await alices.get("checkpoints?limit=1"))["cursor"]["total_count"] == 2
    assert (await alices.send("PUT", f"{run}/checkpoints/weights/a/ttl", {"ttl_seconds": 5}))[
        0
    ] == 400
    assert (await alices.send("PUT", f"{run}/checkpoints/weights/a/ttl", {"ttl_seconds": 7200}))[
        0
    ] == 204
    assert (await alices.send("DELETE", f"{run}/checkpoints/sampler_weights/a"))[0] == 204
    assert (await alices.send("DELETE", f"{run}/checkpoints/sampler_weights/a"))[0] == 404
    (left,) = (await alices.get("checkpoints"))["checkpoints"]
    assert left["expires_at"] > timezone.now().isoformat()


async def test_anothers_sessions_models_and_paths_are_as_good_as_none(
    alices: Client, eves: Client, gateway: FakeGateway
) -> None:
    session_id = await alices.session()
    made = await alices.model(session_id)
    sampler = {"session_id": session_id, "sampling_session_seq_id": 0, "base_model": BASE_MODEL}
    sampling_id = (await alices.post("create_sampling_session", sampler))["sampling_session_id"]
    await stored(made["model_id"], "a")
    await stored(made["model_id"], "a", "sampler_weights", seq_id=2)
    await serve(made["request_id"].partition("|")[0], gateway)
    own = await eves.session()
    path, run = f"tinker://{made['model_id']}/weights/a", f"training_runs/{made['model_id']}"
    tries = [
        ("POST", "session_heartbeat", {"session_id": session_id}),
        ("POST", f"sessions/{session_id}/finish", {}),
        ("POST", "get_info", {"model_id": made["model_id"]}),
        ("POST", "optim_step", step(1, model_id=made["model_id"])),
        ("POST", "forward_backward", training(1, model_id=made["model_id"])),
        ("POST", "save_weights", {"model_id": made["model_id"], "seq_id": 1, "path": "x"}),
        ("POST", "retrieve_future", {"request_id": made["request_id"]}),
        ("POST", "cancel_future", {"request_id": made["request_id"]}),
        ("POST", "asample", {"sampling_session_id": sampling_id, "seq_id": 0}),
        ("GET", f"samplers/{sampling_id}", None),
        ("POST", "create_sampling_session", sampler),
        ("POST", "create_sampling_session",
         {"session_id": own, "sampling_session_seq_id": 0, "model_path": path.replace("weights", "sampler_weights")}),
        ("POST", "create_sampling_session", {"session_id": own, "sampling_session_seq_id": 0, "model_path": path}),
        ("POST", "weights_info", {"tinker_path": path}),
        ("GET", run, None),
        ("GET", f"{run}/checkpoints", None),
        ("DELETE", f"{run}/checkpoints/weights/a", None),
        ("POST", f"{run}/checkpoints/weights/a/publish", None),
        ("PUT", f"{run}/checkpoints/weights/a/ttl", {"ttl_seconds": 7200}),
        ("GET", f"sessions/{session_id}", None),
    ]  # fmt: skip
    for method, where, body in tries:
        status, answer = await eves.send(method, where, body)
        assert status == 404, (where, answer)
    load = {"session_id": own, "model_seq_id": 0, "path": path, "optimizer": True}
    assert await eves.mistake("load_weights", load) == f"There is no checkpoint {path}."
    absent = path.replace("/a", "/b")
    assert (
        await eves.mistake("load_weights", load | {"path": absent})
        == f"There is no checkpoint {absent}."
    )
    foreign = {"session_id": session_id, "model_seq_id": 1, "base_model": BASE_MODEL}
    assert await eves.mistake("create_model", foreign) == "There is no such session."
    assert gateway.requests == []
    for listing, name in (("training_runs", "training_runs"), ("checkpoints", "checkpoints")):
        assert (await eves.get(listing))[name] == []
    assert (await eves.get("sessions"))["sessions"] == [own]
    # What alice publishes, everyone reads and nobody else changes.
    assert (await alices.send("POST", f"{run}/checkpoints/weights/a/publish"))[0] == 204
    assert (await eves.post("weights_info", {"tinker_path": path}))["lora_rank"] == 8
    assert (await eves.send("DELETE", f"{run}/checkpoints/weights/a"))[0] == 404
    assert (await alices.send("DELETE", f"{run}/checkpoints/weights/a/publish"))[0] == 204
    assert (await eves.send("POST", "weights_info", {"tinker_path": path}))[0] == 404


async def test_saved_samplers_and_training_states_are_sampled_and_exports_are_not(
    alices: Client,
) -> None:
    session_id = await alices.session()
    model_id = (await alices.model(session_id))["model_id"]
    for number, segment in enumerate(("weights", "sampler_weights", "external_weights")):
        await stored(model_id, "a", segment, seq_id=number + 1)
        path = f"tinker://{model_id}/{segment}/a"
        body = {"session_id": session_id, "sampling_session_seq_id": number, "model_path": path}
        status, answer = await alices.send("POST", "create_sampling_session", body)
        if segment == "external_weights":
            assert status == 400 and "does not sample" in answer["detail"]
        else:
            assert (await alices.get(f"samplers/{answer['sampling_session_id']}"))[
                "model_path"
            ] == path


async def test_a_client_that_finishes_or_vanishes_frees_its_runtimes_and_its_checkpoints_stay(
    alices: Client,
) -> None:
    for how in ("finish", "vanish"):
        session_id = await alices.session()
        made = await alices.model(session_id)
        await stored(made["model_id"], "kept")
        assert await alices.post("session_heartbeat", {"session_id": session_id}) == {
            "type": "session_heartbeat"
        }
        if how == "finish":
            for reason in ("success", "errored"):
                finish = {"reason": {"type": reason}, "detail": None}
                assert (await alices.send("POST", f"sessions/{session_id}/finish", finish))[
                    0
                ] == 204
        else:
            await TinkerSession.objects.filter(id=session_id).aupdate(
                heartbeat_at=timezone.now() - timedelta(hours=1)
            )
            await sync_to_async(tinker_sessions_vanished_finish)()
        row = await TinkerSession.objects.aget(id=session_id)
        assert row.finished["type"] == {"finish": "success", "vanish": "vanished"}[how], (
            "the first reason stands"
        )
        assert (
            await Session.objects.aget(id=made["request_id"].partition("|")[0])
        ).state == "stopped"
        assert (await alices.send("POST", "session_heartbeat", {"session_id": session_id}))[
            0
        ] == 410
        another = {"session_id": session_id, "model_seq_id": 1, "base_model": BASE_MODEL}
        assert "finished" in await alices.mistake("create_model", another)
        assert (await alices.get(f"training_runs/{made['model_id']}/checkpoints"))[
            "checkpoints"
        ] != []


async def test_what_a_newer_client_says_more_does_not_end_it(alices: Client) -> None:
    assert (await alices.post("client/config", {"sdk_version": "9", "platform": "x"}))[
        "proto_compress_fwdbwd"
    ]
    session_id = await alices.session()
    await alices.post("session_heartbeat", {"session_id": session_id, "load": 1})
    finish = {"reason": {"type": "success", "code": 0}, "detail": None, "more": 1}
    assert (await alices.send("POST", f"sessions/{session_id}/finish", finish))[0] == 204


async def test_a_quota_pauses_the_client_and_does_not_end_it(
    alices: Client, project: Project
) -> None:
    """402 is what it waits on, for up to an hour."""
    await Project.objects.filter(id=project.id).aupdate(session_quota=1)
    await alices.model(await alices.session())
    status, answer = await alices.send(
        "POST",
        "create_model",
        {
            "session_id": await alices.session(),
            "model_seq_id": 0,
            "base_model": BASE_MODEL,
            "lora_config": {"rank": 0},  # which trains beside no other
        },
    )
    assert status == 402 and "1 sessions" in answer["detail"]


async def test_what_a_client_says_of_itself_is_on_the_record_of_its_sessions(
    alices: Client,
) -> None:
    session_id = await alices.session()
    start = {"event": "SESSION_START", "severity": "INFO"}
    await alices.post("telemetry", {"events": [start], "session_id": session_id})
    made = await alices.model(session_id)
    events = [
        {"event": "GENERIC_EVENT", "severity": severity, "text": "x" * 3000}
        for severity in ("INFO", "ERROR")
    ]
    assert await alices.post(
        "telemetry", {"events": events * 60, "session_id": session_id, "platform": "p"}
    ) == {"status": "accepted"}
    await alices.post("telemetry", {"events": events, "session_id": session_id})
    rows = EventRecord.objects.filter(session_id=made["request_id"].partition("|")[0]).order_by(
        "id"
    )
    said = [row.data["event"] async for row in rows if row.data.get("name") == "tinker_client"]
    severities = [each["severity"] for each in said]
    assert said[0] == start, "said before the session had a record"
    assert severities[1:] == ["ERROR"] * 50 + ["INFO", "ERROR"], "of a flood the errors first"
    assert len(said[1]["text"]) == 2000
    assert await alices.post("telemetry", {"events": [], "session_id": "sessionless-1"}) == {
        "status": "accepted"
    }
