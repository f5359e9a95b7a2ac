"""OpenAI's and Anthropic's dialects with an API key: which model a name means, whose it is, what a
runtime is told.
"""

import json
from datetime import timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client as Browser
from django.utils import timezone

from api.forward import routes
from console.asgi import application
from console.sessions.models import Checkpoint, Session
from console.sessions.serving import serving_create
from console.tinker.models import TinkerSampler, TinkerSession
from console.tinker.services import tinker_sessions_vanished_finish
from console.users.keys import key_create
from console.users.models import ApiKey, Membership, Project, User
from gpu_runtime.gateway.dialects import dialect_routes
from support.asgi_calls import Call, FakeGateway
from support.factories import BASE_MODEL, EVERY_SCOPE, member_make, session_make, user_make
from support.tinker_client import Client
from support.tinker_rows import checkpoint_store
from tinkerscript.wire.account import Role
from tinkerscript.wire.dialects.table import DIALECTS
from tinkerscript.wire.serving import ServingCreate

pytestmark = pytest.mark.django_db(transaction=True)
CHAT, MESSAGES = "/oai/api/v1/chat/completions", "/anthropic/api/v1/messages"
stored = sync_to_async(checkpoint_store)


async def ask(client: Client, model: Any, path: str = CHAT, **headers: str) -> tuple[int, Any]:
    body = json.dumps({"model": model, "messages": []}).encode()
    sent = {"x_api_key": client.secret} if path.startswith("/anthropic") else {"key": client.secret}
    status, _, answer = await Call(
        application, "POST", path, body=body, **(sent | headers)
    ).answer()
    return status, json.loads(answer)


async def trained(client: Client, gateway: FakeGateway) -> tuple[str, str]:
    """A model that was saved for its sampler, on a runtime that is up: its path, and the id of its
    checkpoint.
    """
    made = await client.model(await client.session())
    opened = await stored(made["model_id"], "final", "sampler_weights")
    await Session.objects.filter(id=made["request_id"].partition("|")[0]).aupdate(
        state="ready", address=gateway.address
    )
    return f"tinker://{made['model_id']}/sampler_weights/final", opened.checkpoint_id


def test_every_path_of_a_dialect_is_in_the_table() -> None:
    handler: Any = SimpleNamespace(calls=SimpleNamespace(renderer=None))  # not called
    served = {
        (route.path, method) for route in dialect_routes(handler) for method in route.methods or ()
    }
    by_api_key = {(path, "POST") for row in DIALECTS for path in row.paths}
    assert by_api_key <= served
    of_episodes = {path for row in DIALECTS for path in row.of_episodes}
    assert {path for path, _ in served - by_api_key} == of_episodes


async def test_every_name_of_a_model_leads_to_the_runtime_that_serves_its_client(
    alices: Client, gateway: FakeGateway
) -> None:
    path, checkpoint_id = await trained(alices, gateway)
    for name in (path, f"{BASE_MODEL};{path}", checkpoint_id):
        assert await ask(alices, name) == (200, {"path": "/v1/chat/completions"})
    assert await ask(alices, BASE_MODEL) == (200, {"path": "/v1/chat/completions"})
    assert await ask(alices, path, MESSAGES) == (200, {"path": "/v1/messages"})
    paths = ("completions", "responses/input_tokens", "messages/count_tokens")
    for of_both in (f"/openai/v1/{each}" for each in paths):
        assert await ask(alices, path, of_both) == (200, {"path": of_both.removeprefix("/openai")})
    assert await Session.objects.acount() == 1, "no second runtime"
    told = [
        json.loads(body) for request, body in gateway.requests if request.path == "/tinker/samplers"
    ]
    assert [(each.get("model_path"), each.get("checkpoint_id")) for each in told] == [
        (path, checkpoint_id), (None, None),
    ]  # fmt: skip
    samplers = {request.headers.get("X-Tinker-Sampler") for request, _ in gateway.requests} - {None}
    assert samplers == {each["sampling_session_id"] for each in told}
    for request, _ in gateway.requests:
        assert request.headers["X-Relay-Key"] and not {"Authorization", "X-Api-Key"} & set(
            request.headers
        )
    calls = [request for request, _ in gateway.requests if request.path.startswith("/v1/")]
    callers = {request.headers.get("X-Tinker-Caller") for request in calls}
    assert len(callers) == 1 and callers != {None}, (
        "so that another key of the project is another caller"
    )


async def test_a_serving_session_that_would_be_waited_for_takes_no_call_from_a_runtime_that_is_ready(
    alices: Client, project: Project, alice: User, gateway: FakeGateway
) -> None:
    await trained(alices, gateway)
    body = ServingCreate(model=BASE_MODEL)
    served = await sync_to_async(serving_create)(project=project, body=body, person=alice)
    row = Session.objects.filter(id=served.id)
    await row.aupdate(state="suspended")
    assert await ask(alices, BASE_MODEL) == (200, {"path": "/v1/chat/completions"})
    assert gateway.requests[-1][0].headers.get("X-Tinker-Sampler")
    assert (await row.aget()).state == "suspended"
    await row.aupdate(state="ready", address=gateway.address)
    assert await ask(alices, BASE_MODEL, MESSAGES) == (200, {"path": "/v1/messages"})
    assert not gateway.requests[-1][0].headers.get("X-Tinker-Sampler"), (
        "that of the serving session"
    )


async def test_a_path_that_is_saved_anew_is_sampled_anew(
    alices: Client, gateway: FakeGateway
) -> None:
    path, _ = await trained(alices, gateway)
    model_id = path.split("/")[2]
    await ask(alices, path)
    second = await stored(model_id, "final", "sampler_weights", 2, overwrite=True)
    await ask(alices, second.checkpoint_id)
    last = gateway.requests[-1][0].headers["X-Tinker-Sampler"]
    assert (await TinkerSampler.objects.aget(id=last)).checkpoint_id == second.checkpoint_id


async def test_a_foreign_model_is_as_if_it_did_not_exist(
    alices: Client, eves: Client, gateway: FakeGateway
) -> None:
    path, checkpoint_id = await trained(alices, gateway)
    nothing = path.replace("final", "nothing")
    for name, none in (
        (path, nothing),
        (f"{BASE_MODEL};{path}", f"{BASE_MODEL};{nothing}"),
        (checkpoint_id, "ckp_0"),
    ):
        for dialect in (CHAT, MESSAGES, "/openai/v1/chat/completions"):
            (status, said), (as_none, said_of_none) = (
                await ask(eves, name, dialect),
                await ask(eves, none, dialect),
            )
            assert (status, as_none) == (404, 404)
            as_foreign = (
                json.dumps(said).replace("final", "nothing").replace(checkpoint_id, "ckp_0")
            )
            assert as_foreign == json.dumps(said_of_none), "but for the names, the same words"
    assert gateway.requests == []
    status, listed = await models(eves, "/oai/api/v1/models")
    assert path not in json.dumps(listed) and path in json.dumps(
        await models(alices, "/oai/api/v1/models")
    )
    assert await alices.send(
        "POST", f"training_runs/{path.split('/')[2]}/checkpoints/sampler_weights/final/publish", {}
    )
    status, answer = await ask(eves, path)
    assert status == 503, answer  # it is public now: a runtime of eve's own is on its way up
    projects = {row.project_id async for row in Session.objects.all()}
    assert len(projects) == 2 and gateway.requests == []


async def models(client: Client, path: str) -> tuple[int, Any]:
    status, _, answer = await Call(application, "GET", path, x_api_key=client.secret).answer()
    return status, json.loads(answer)


async def test_without_a_client_a_runtime_is_started_and_ends_after_the_last_request(
    alices: Client,
) -> None:
    for _ in range(2):
        status, answer = await ask(alices, BASE_MODEL)
        assert status == 503 and "queued" in answer["error"]["message"]
    row = await Session.objects.aget()
    assert (row.kind, row.name) == ("tinker", "OpenAI and Anthropic endpoints")
    long_ago = timezone.now() - timedelta(hours=1)
    await TinkerSession.objects.aupdate(heartbeat_at=long_ago)
    await ask(alices, BASE_MODEL)
    await sync_to_async(tinker_sessions_vanished_finish)()
    assert (await TinkerSession.objects.aget()).finished is None, "a request is its heartbeat"
    await TinkerSession.objects.aupdate(heartbeat_at=long_ago)
    await sync_to_async(tinker_sessions_vanished_finish)()
    assert (await Session.objects.aget()).state == "cancelled"
    await ask(alices, BASE_MODEL)
    assert await Session.objects.acount() == 2, "the next request starts another"


async def test_a_loop_that_took_its_api_key_for_an_episodes_is_told_so_when_it_waits(
    alices: Client,
) -> None:
    status, answer = await ask(alices, BASE_MODEL, "/openai/v1/chat/completions")
    assert status == 503 and "belongs to no episode" in answer["error"]["message"]
    assert "begin_episode()" in answer["error"]["message"]
    assert "episode" not in (await ask(alices, BASE_MODEL))[1]["error"]["message"], (
        "who asks there means the model"
    )


async def test_while_its_own_loop_trains_a_key_cannot_be_an_episodes_by_mistake(
    alices: Client,
) -> None:
    """The agent got the session's API key instead of the episode's: served, it would train nothing,
    without a word.
    """
    key = await ApiKey.objects.select_related("project").aget(
        sha256=sha256(alices.secret.encode()).hexdigest()
    )
    loop = await sync_to_async(session_make)(key.project, key=key, base_model=BASE_MODEL)
    for path in ("/openai/v1/chat/completions", "/openai/v1/messages"):
        status, answer = await ask(alices, BASE_MODEL, path)
        assert status == 400, answer
        said = answer["error"]["message"]
        assert (
            f"session {loop.id} trains {BASE_MODEL} with" in said
            and "begin_episode()" in said
            and "/oai/api/v1" in said
        )
    assert await Session.objects.acount() == 1, "no runtime was started for it"
    assert (await ask(alices, BASE_MODEL))[0] == 503, "who asks there means the model"
    await Session.objects.filter(id=loop.id).aupdate(state="stopped")
    assert (await ask(alices, BASE_MODEL, "/openai/v1/chat/completions"))[0] == 503


async def test_a_loop_of_another_key_forbids_nothing(alices: Client) -> None:
    key = await ApiKey.objects.select_related("project").aget(
        sha256=sha256(alices.secret.encode()).hexdigest()
    )
    await sync_to_async(session_make)(key.project, base_model=BASE_MODEL)
    assert (await ask(alices, BASE_MODEL, "/openai/v1/chat/completions"))[0] == 503


async def test_an_alias_of_a_model_with_an_api_key_is_told_of_episodes_too(alices: Client) -> None:
    status, answer = await ask(alices, "gpt-4o", "/openai/v1/chat/completions")
    assert status == 400 and "belongs to no episode" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("model", "status", "said"),
    [
        ("nothing", 400, "nothing"),
        ("tinker://a/b", 400, "no path of the form"),
        ("", 400, "model"),
        (7, 400, "model"),
        ("x" * 2000, 400, "model"),
        ("ckp_nothing", 404, "ckp_nothing"),
    ],
)
async def test_a_name_that_is_of_no_model_is_refused_in_the_clients_dialect(
    alices: Client, model: Any, status: int, said: str
) -> None:
    for path in (CHAT, MESSAGES):
        found, answer = await ask(alices, model, path)
        assert found == status and said in answer["error"]["message"]
        assert (answer.get("type") == "error") == (path == MESSAGES)


async def test_a_training_state_and_a_model_of_episodes_are_sampled_too(
    alices: Client, eves: Client, gateway: FakeGateway, project: Project
) -> None:
    path, _ = await trained(alices, gateway)
    state = await stored(path.split("/")[2], "state", "weights", 2)
    of_episodes = await Session.objects.acreate(
        project=project, base_model=BASE_MODEL, state="stopped"
    )
    model, resumable = [
        await Checkpoint.objects.acreate(
            session=of_episodes,
            kind=kind,
            state="committed",
            step=3,
            files=[],
            committed_at=timezone.now(),
        )
        for kind in ("model", "state")
    ]
    for name in (
        path.replace("sampler_weights/final", "weights/state"),
        state.checkpoint_id,
        model.id,
    ):
        assert (await ask(alices, name))[0] == 200
        told = json.loads(
            [body for request, body in gateway.requests if request.path == "/tinker/samplers"][-1]
        )
        assert told["checkpoint_id"] == (model.id if name == model.id else state.checkpoint_id)
    status, answer = await ask(alices, resumable.id)
    assert status == 400 and "kind model" in answer["error"]["message"]
    assert (await ask(eves, model.id))[0] == 404


async def test_a_runtime_that_was_started_anew_is_told_again(
    alices: Client, gateway: FakeGateway
) -> None:
    path, _ = await trained(alices, gateway)
    for address in (
        gateway.address,
        gateway.address,
        gateway.address.replace("127.0.0.1", "localhost"),
    ):
        await Session.objects.aupdate(address=address)
        routes.drop((await Session.objects.aget()).id)
        assert (await ask(alices, path))[0] == 200
    assert [request.path for request, _ in gateway.requests].count("/tinker/samplers") == 2


async def test_files_for_others_another_base_and_another_path_are_refused(
    alices: Client, gateway: FakeGateway
) -> None:
    path, _ = await trained(alices, gateway)
    await stored(path.split("/")[2], "files", "external_weights", 2)
    status, answer = await ask(
        alices, path.replace("sampler_weights/final", "external_weights/files")
    )
    assert status == 400 and "save_weights_for_sampler" in answer["error"]["message"]
    status, answer = await ask(alices, f"another;{path}")
    assert status == 400 and "another" in answer["error"]["message"]
    for compressed in ("/oai/api/v1/responses", MESSAGES):
        status, said = await ask(alices, path, compressed, content_encoding="zstd")
        assert status == 415 and "enable_request_compression" in said["error"]["message"]
    assert (await ask(alices, path, "/oai/api/v1/embeddings"))[0] == 404
    assert (await ask(alices, path, "/oai/api/v1/messages"))[0] == 404
    assert (await ask(alices, path, "/oai/api/v1/../v1/completions"))[0] == 404
    status, _, _ = await Call(application, "GET", CHAT, key=alices.secret).answer()
    assert status == 405


async def test_a_key_is_needed_and_its_limits_hold(
    alices: Client, gateway: FakeGateway, project: Project, alice: User
) -> None:
    path, _ = await trained(alices, gateway)
    for secret in ("", "tml-ts_wrong", "x" * 5000):
        for dialect in (CHAT, MESSAGES):
            assert (await ask(Client(secret), path, dialect))[0] == 401
    of_other_models = await sync_to_async(key_create)(
        project=project, user=alice, name="k", scopes=EVERY_SCOPE, allowed_models=["another"]
    )
    status, answer = await ask(Client(of_other_models[1]), path)
    assert status == 403 and BASE_MODEL in answer["error"]["message"]
    capped = await sync_to_async(key_create)(
        project=project, user=alice, name="k", scopes=EVERY_SCOPE, spend_cap_s=60
    )
    assert (await ask(Client(capped[1]), path))[0] == 503, (
        "a capped key pays for a runtime of its own"
    )
    assert await Session.objects.acount() == 2


async def test_models_are_listed_in_both_dialects(alices: Client, gateway: FakeGateway) -> None:
    path, _ = await trained(alices, gateway)
    _, listed = await models(alices, "/oai/api/v1/models")
    assert {BASE_MODEL, path} <= {each["id"] for each in listed["data"]}
    _, listed = await models(alices, "/anthropic/api/v1/models")
    assert (
        path in {each["id"] for each in listed["data"] if each["type"] == "model"}
        and not listed["has_more"]
    )


def key_for(
    user: User, checkpoint_id: str, *, csrf: bool = True, secret: str = ""
) -> tuple[int, Any]:
    """What a person's browser is answered that asks for a key, or a program with ``secret``."""
    session = Checkpoint.objects.get(id=checkpoint_id).session
    browser = Browser(enforce_csrf_checks=True)
    headers = {"Authorization": f"Bearer {secret}"}
    if not secret:
        browser.force_login(user)
        browser.get("/")  # the console's page brings the token
        headers = {"X-Project-Id": session.project_id}
        headers |= {"X-CSRFToken": browser.cookies["csrftoken"].value} if csrf else {}
    path = f"/v1/sessions/{session.id}/checkpoints/{checkpoint_id}/serving-keys"
    made = browser.post(path, {}, content_type="application/json", headers=headers)
    return made.status_code, made.json()


key_asked = sync_to_async(key_for)


async def test_a_person_asks_what_a_client_saved_by_a_key_for_it_alone_that_ends_with_their_part(
    alices: Client, project: Project, member: User, gateway: FakeGateway
) -> None:
    path, checkpoint_id = await trained(alices, gateway)
    status, made = await key_asked(member, checkpoint_id)
    assert (status, made["model"]) == (201, path), made
    assert made["base_url"].endswith("/oai/api/v1"), made
    members = Client(made["api_key"])
    for name in (path, checkpoint_id):
        assert await ask(members, name) == (200, {"path": "/v1/chat/completions"})
    assert await ask(members, path, MESSAGES) == (200, {"path": "/v1/messages"})
    (asked,) = {request.headers["X-Tinker-Caller"] for request, _ in gateway.requests[-2:]}
    assert asked.startswith("user:") and await Session.objects.acount() == 1
    for other in (BASE_MODEL, path.replace("final", "nothing"), "ckp_0"):
        assert (await ask(members, other))[0] == 404, other
    assert (await ask(members, path, "/openai/v1/chat/completions"))[0] == 410, "it is no episode's"
    forged = Client(made["api_key"][:-4] + "AAAA")
    assert (await ask(forged, path))[0] == 401
    await Membership.objects.filter(user=member, project=project).aupdate(role="viewer")
    assert (await ask(members, path))[0] == 401


async def test_a_key_for_a_checkpoint_is_for_people_who_may_start_what_answers(
    alices: Client, project: Project, alice: User, gateway: FakeGateway
) -> None:
    _, checkpoint_id = await trained(alices, gateway)
    viewer = await sync_to_async(member_make)(project, "vera", Role.VIEWER)
    eve = await sync_to_async(user_make)("eve")
    assert (await key_asked(alice, checkpoint_id))[0] == 201
    assert (await key_asked(viewer, checkpoint_id))[0] == 403
    assert (await key_asked(eve, checkpoint_id))[0] == 404
    assert (await key_asked(alice, checkpoint_id, csrf=False))[0] == 403
    assert (await key_asked(alice, checkpoint_id, secret=alices.secret))[0] == 403
    row = Checkpoint.objects.filter(id=checkpoint_id)
    await row.aupdate(state="uploading")
    assert (await key_asked(alice, checkpoint_id))[0] == 409


async def test_a_runtime_that_no_one_has_is_started_for_the_person_who_asks(
    alices: Client, alice: User, gateway: FakeGateway
) -> None:
    path, checkpoint_id = await trained(alices, gateway)
    _, made = await key_asked(alice, checkpoint_id)
    await Session.objects.all().aupdate(state="stopped")
    assert (await ask(Client(made["api_key"]), path))[0] == 503, "it is on its way up"
    started = await Session.objects.exclude(state="stopped").aget()
    assert (started.key_id, started.person_id, started.kind) == (None, alice.pk, "tinker")
