"""Tokens in the place of keys, searches, the audit log and usage."""

import asyncio
import base64
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from api.rest.authentication import KeyCaller
from api.tinker import account, search
from api.tinker.requests import SessionSearch
from console.asgi import application
from console.sessions.models import Session
from console.tinker import tokens
from console.tinker.checkpoints import named_state_find
from console.tinker.models import TinkerModel
from console.users.keys import key_create, key_revoke
from console.users.models import ApiKey, Project, User
from support.asgi_calls import Call
from support.factories import BASE_MODEL, key_make, member_make
from support.tinker_client import Client
from support.tinker_harness import step
from support.tinker_rows import checkpoint_store
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.tinker.messages import NamedState, NamedStateFind

pytestmark = pytest.mark.django_db(transaction=True)
stored = sync_to_async(checkpoint_store)


@sync_to_async
def state_found(model_id: str, path: str) -> NamedState:
    """What the runtime of a model is told of a saved state."""
    session = TinkerModel.objects.select_related("session__project").get(id=model_id).session
    return named_state_find(session=session, body=NamedStateFind(model_id=model_id, path=path))


def claims_of(token: str) -> dict[str, Any]:
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


async def test_a_token_stands_for_its_key_until_either_ends(
    alices: Client, project: Project, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = (await alices.post("auth/token"))["jwt"]
    claims = claims_of(token)
    assert (claims["sub"], claims["org_id"], claims["email"]) == (
        f"tml:user:{alice.pk}",
        project.id,
        alice.email,
    )
    assert 0 < claims["exp"] - claims["iat"] <= 3600
    by_token = Client(token)
    session_id = await by_token.session()
    assert (await alices.get("sessions"))["sessions"] == [session_id]
    head, payload, signature = token.split(".")
    forged = (
        base64.urlsafe_b64encode(json.dumps(claims | {"kid": "key_other"}).encode())
        .decode()
        .rstrip("=")
    )
    for bad in (
        f"{head}.{forged}.{signature}",
        f"{head}.{payload}.{signature[:-2]}",
        f"{head}.{payload}.",
        "eyJ",
        head,
    ):
        call = Call(application, "GET", "/api/v1/healthz", x_api_key=bad)
        status, headers, _ = await call.answer()
        assert status == 401 and "invalid_token" in headers["www-authenticate"], bad
    later = time.time() + 4000
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "time", SimpleNamespace(time=lambda: later))
        await refused(by_token)
    await sync_to_async(key_revoke)(project=project, user=alice, key_id=claims["kid"])
    await refused(by_token)


async def refused(client: Client) -> None:
    """Waits until a request is: who calls is looked up once in a while."""
    async with asyncio.timeout(25):
        while (await client.send("GET", "healthz"))[0] != 401:
            await asyncio.sleep(0.01)


async def test_a_key_revokes_itself_alone(alices: Client, project: Project, alice: User) -> None:
    other = Client(await sync_to_async(key_make)(project, alice))
    assert (await alices.send("DELETE", "auth/apikey/me"))[0] == 204
    await refused(alices)
    assert (await other.get("auth/apikey/me"))["details"]["user_details"]["email"] == alice.email
    assert await ApiKey.objects.filter(revoked_at=None).acount() == 1


async def test_sessions_are_searched_by_all_that_is_given_page_by_page(alices: Client) -> None:
    made = []
    for number in range(3):
        body = {
            "tags": [],
            "display_name": f"Run {number} of mine",
            "user_metadata": {"n": str(number), "a.b__c": "x"},
        }
        made.append((await alices.post("create_session", body))["session_id"])
    await alices.send(
        "POST", f"sessions/{made[0]}/finish", {"reason": {"type": "errored"}, "detail": "d"}
    )

    async def found(**query: Any) -> list[str]:
        return [
            each["session_id"] for each in (await alices.post("sessions/search", query))["sessions"]
        ]

    assert await found() == made[::-1]
    assert await found(display_name="mine run 1") == [made[1]]
    assert sorted(await found(display_name="run 1", session_id=made[2])) == sorted(made[1:])
    assert await found(user_metadata={"n": "2", "a.b__c": "x"}) == [made[2]]
    assert await found(user_metadata={"n": "2", "a.b__c": "y"}) == []
    assert await found(statuses=[{"type": "client_finished", "reasons": ["errored"]}]) == [made[0]]
    assert (
        await found(
            statuses=[{"type": "client_finished", "reasons": ["success"]}, {"type": "failed"}]
        )
        == []
    )
    assert await found(statuses=[{"type": "active"}]) == made[:0:-1]
    first = await alices.post("sessions/search", {"limit": 2, "owner": {"type": "accessible"}})
    assert [each["status"]["type"] for each in first["sessions"]] == ["active", "active"]
    rest = await alices.post("sessions/search", {"limit": 2, "cursor": first["next_cursor"]})
    assert [each["session_id"] for each in rest["sessions"]] == [made[0]] and rest[
        "next_cursor"
    ] is None
    owner = rest["sessions"][0]["owner"]
    assert await found(owner={"type": "user", "owner_urns": [owner]}) == made[::-1]
    assert await found(owner={"type": "user", "owner_urns": ["tml:user:99999", "nonsense"]}) == []
    assert (await alices.send("POST", "sessions/search", {"project_ids": ["prj_other"]}))[0] == 404
    assert (await alices.send("POST", "sessions/search", {"statuses": []}))[0] == 400


async def test_a_page_of_sessions_counts_the_checkpoints_of_all_in_one_query(
    alices: Client,
) -> None:
    @sync_to_async
    def page() -> tuple[list[tuple[int, int]], int]:
        key = ApiKey.objects.select_related("project", "user").get()
        caller = KeyCaller(
            user=key.user, project=key.project, scopes=frozenset(), id=key.id, key=key
        )
        with CaptureQueriesContext(connection) as queries:
            answer = search.sessions_search(caller, SessionSearch())
        told = [
            (each["checkpoints_count"], each["checkpoint_storage_bytes"])
            for each in answer["sessions"]
        ]
        return told, len(queries)

    pages = []
    for number in range(3):
        made = await alices.model(session := await alices.session())
        for name in range(number):
            await stored(made["model_id"], f"c{name}", seq_id=name + 1)
        # for the next one
        await Session.objects.filter(tinker_clients__tinker_session_id=session).aupdate(
            state="stopped"
        )
        pages.append(await page())
    assert pages[-1][0] == [(2, 14), (1, 7), (0, 0)]
    assert len({queries for _, queries in pages}) == 1


async def test_checkpoints_are_searched_and_counted(
    alices: Client, alice: User, project: Project
) -> None:
    made = await alices.model(await alices.session())
    await stored(made["model_id"], "a", user_metadata={"k": "v"})
    await stored(made["model_id"], "b", "sampler_weights", 2)

    async def found(**query: Any) -> list[str]:
        answer = await alices.post("search_checkpoints", query)
        return [each["checkpoint_id"] for each in answer["checkpoints"]]

    assert await found() == ["sampler_weights/b", "weights/a"]
    assert (
        await found(checkpoint_type="training")
        == await found(user_metadata={"k": "v"})
        == ["weights/a"]
    )
    assert await found(base_models=["another"]) == await found(base_models=[]) == []
    first = await alices.post("checkpoints/search", {"limit": 1})
    assert first["next_cursor"].keys() == {"last_created_at", "last_checkpoint_uuid"}
    assert await found(cursor=first["next_cursor"]) == ["weights/a"]
    assert first["checkpoints"][0]["base_model"] == BASE_MODEL
    (item,) = (await alices.get("billing/usage/checkpoints/current"))["data"]
    assert (item["user_email"], item["checkpoint_count"], item["size_bytes"]) == (
        alice.email,
        2,
        14,
    )
    usage = await alices.get("billing/usage/events")
    (event,) = usage["data"]
    assert (
        event["event_info"] == {"type": "checkpoint", "count": 2}
        and event["session_id"] in usage["sessions"]
    )
    assert (
        await alices.get("billing/usage/events?starting_on=2020-01-01&ending_before=2020-02-01")
    )["data"] == []
    for wrong in (
        "starting_on=x",
        "starting_on=2020-01-01",
        "starting_on=2020-02-02&ending_before=2020-02-01",
        "ending_before=0001-01-02",
        "ending_before=9999-12-31",
    ):
        assert (await alices.send("GET", f"billing/usage/events?{wrong}"))[0] == 400


async def test_the_audit_log_is_for_admin_keys(
    alices: Client, project: Project, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alices.model(await alices.session())
    assert (await alices.send("GET", "audit"))[0] == 403
    admin = await sync_to_async(key_create)(
        project=project, user=alice, name="admin", scopes=[Scope.ADMIN]
    )
    admins = Client(admin[1])
    entries = (await admins.get("audit"))["entries"]
    assert (
        entries[-1]["event"] == "tinker_runtime_start"
        and entries[-1]["event_details"]["actor"] == alice.email
    )
    today = entries[-1]["timestamp"][:10]
    monkeypatch.setattr(account, "AUDIT_PAGE", 1)
    assert (await admins.get(f"audit?day={today}"))["entries"] == (await admins.get("audit"))[
        "entries"
    ]
    assert len((await admins.get("audit"))["entries"]) >= len(entries) > 1, (
        "more than the newest page"
    )
    assert (await admins.get("audit?event_type=teams"))["entries"] == []
    assert (await admins.get("audit?day=2020-01-01"))["entries"] == []
    assert (await admins.send("GET", "audit?event_type=nonsense"))[0] == 400


async def test_copies_of_a_sampling_client_get_numbers_of_their_own(alices: Client) -> None:
    body = {
        "session_id": await alices.session(),
        "sampling_session_seq_id": 0,
        "base_model": BASE_MODEL,
    }
    sampler = {
        "sampling_session_id": (await alices.post("create_sampling_session", body))[
            "sampling_session_id"
        ]
    }
    numbers = [
        (await alices.post("join_sampling_session", sampler))["client_counter"] for _ in range(2)
    ]
    assert numbers == [1, 2]
    assert (
        await alices.send("POST", "join_sampling_session", {"sampling_session_id": "nonsense"})
    )[0] == 404


async def test_a_session_stays_in_the_one_project_of_its_key(
    alices: Client, project: Project
) -> None:
    where = f"sessions/{await alices.session()}/project"
    assert (await alices.send("PUT", where, {"project_id": project.id}))[0] == 204
    assert (await alices.send("PUT", where, {"project_id": "prj_other"}))[0] == 404


async def test_a_key_that_was_given_away_reads_its_owners_paths(
    alices: Client, eves: Client, project: Project, alice: User
) -> None:
    made = await alices.model(await alices.session())
    await stored(made["model_id"], "a")
    load = {
        "session_id": await eves.session(), "model_seq_id": 0, "optimizer": True,
        "path": f"tinker://{made['model_id']}/weights/a",
    }  # fmt: skip
    assert await eves.mistake("load_weights", load) == f"There is no checkpoint {load['path']}."
    assert await eves.mistake("load_weights", load | {"weights_access_token": "tml-ts_wrong"})
    of_model = await eves.model(load["session_id"], number=1)
    found = await state_found(of_model["model_id"], load["path"])
    assert (
        found.checkpoint_id is None and found.refusal == f"There is no checkpoint {load['path']}."
    )
    found = await state_found(
        made["model_id"], load["path"].replace("/weights/", "/sampler_weights/")
    )
    assert "There is no checkpoint" in found.refusal
    assert (await state_found(made["model_id"], load["path"])).checkpoint_id
    blind = await sync_to_async(key_make)(project, alice, [Scope.SESSIONS_READ])
    refused = await eves.mistake("load_weights", load | {"weights_access_token": blind})
    assert "without the scope checkpoints:read" in refused
    loaded = await eves.post("load_weights", load | {"weights_access_token": alices.secret})
    assert loaded["model_id"] == f"{load['session_id']}:train:0"


async def test_lists_are_of_ones_own_or_of_the_project_and_say_when_a_model_was_last_asked(
    alices: Client, project: Project
) -> None:
    made = await alices.model(session_id := await alices.session())
    colleague = await sync_to_async(member_make)(project, "carol", Role.MEMBER)
    carols = Client(await sync_to_async(key_make)(project, colleague))
    for scope, count in (("owned", 0), ("accessible", 1)):
        where = f"access_scope={scope}&project_id={project.id}"
        assert len((await carols.get(f"training_runs?{where}"))["training_runs"]) == count
        assert (await carols.get(f"sessions?{where}"))["sessions"] == [session_id][:count]
    assert (await carols.send("GET", "training_runs?project_id=prj_other"))[0] == 404
    assert (await carols.send("GET", "sessions?access_scope=x"))[0] == 400
    run = f"training_runs/{made['model_id']}"
    before = (await alices.get(run))["last_request_time"]
    await alices.send("POST", "optim_step", step(1, model_id=made["model_id"]))
    asked = (await alices.get(run))["last_request_time"]
    await alices.send("POST", "optim_step", step(2, model_id=made["model_id"]))
    assert before < asked == (await alices.get(run))["last_request_time"], (
        "written down once a minute at most"
    )
