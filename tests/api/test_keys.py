"""What a key is limited to, and that its end is the end of all that was begun with it."""

import asyncio
import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from aiohttp import web
from allauth.account.models import EmailAddress
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone

from api.relay import callers
from console.asgi import application
from console.sessions.budgets import sessions_over_budget_stop
from console.sessions.models import RuntimeSpan, Session
from console.users.keys import key_create, key_revoke
from console.users.members import (
    invitation_accept,
    member_invite,
    member_list,
    member_remove,
    member_role_set,
)
from console.users.models import ApiKey, Project, User
from support import factories
from support.asgi_calls import Call, FakeGateway, episode_key
from support.route_cases import BODIES, FOR_PEOPLE
from support.signing_in import cookie_of
from support.waiting import FakeClock
from tinkerscript.wire.account import Role, Scope
from tinkerscript.wire.sessions import SessionState

JSON = "application/json"
ANOTHER = {"base_model": "another-model"}


def limited(project: Project, user: User, **limits: object) -> tuple[ApiKey, str]:
    return key_create(
        project=project, user=user, name="limited", scopes=factories.EVERY_SCOPE, **limits
    )


def spend(session: Session, seconds: float, *, gpus: int = 0) -> None:
    """A runtime of the session was seen for so long."""
    now = timezone.now()
    RuntimeSpan.objects.create(
        project=session.project, session_id=session.id, key_id=session.key_id,
        lease_sha256=f"{RuntimeSpan.objects.count():064}", gpus=gpus,
        started_at=now - timedelta(seconds=seconds), seen_at=now,
    )  # fmt: skip


# -- Models -----------------------------------------------------------------------------------------------------------


def test_a_key_starts_sessions_of_its_models_alone(project, alice, client_for) -> None:
    _, secret = limited(project, alice, allowed_models=[factories.BASE_MODEL])
    client = client_for(secret)
    made = client.post("/v1/sessions", {"base_model": factories.BASE_MODEL}, content_type=JSON)
    assert made.status_code == 201, made.content
    refused = client.post("/v1/sessions", ANOTHER, content_type=JSON)
    assert refused.status_code == 403
    assert "another-model" in refused.json()["error"]["message"]
    assert refused.json()["error"]["details"]["allowed_models"] == [factories.BASE_MODEL]


def test_a_key_begins_no_episode_in_a_session_of_another_model(project, alice, client_for) -> None:
    _, secret = limited(project, alice, allowed_models=["another-model"])
    session = factories.session_make(project)
    answer = client_for(secret).post(f"/v1/sessions/{session.id}/episodes", {}, content_type=JSON)
    assert answer.status_code == 403, answer.content
    assert client_for(secret).get(f"/v1/sessions/{session.id}").status_code == 200


CHANGES = [
    case
    for case in BODIES
    if case[0] != "GET" and "{session_id}" in case[1] and case not in FOR_PEOPLE
]


@pytest.mark.parametrize("case", CHANGES, ids=" ".join)
def test_a_limited_key_changes_no_session_outside_its_limits(
    case, project, alice, client_for, memory_store
) -> None:
    _, of_models = limited(project, alice, allowed_models=["another-model"])
    capped, of_cap = limited(project, alice, spend_cap_s=100)
    ids = factories.ids_make(project, alice)
    method, path = case[0], f"/v1{case[1].format(**ids)}"
    for secret in (of_models, of_cap):
        response = client_for(secret).generic(
            method, path, json.dumps(BODIES[case] or {}), content_type=JSON
        )
        assert response.status_code == 403, response.content
    Session.objects.filter(id=ids["session_id"]).update(key=capped)
    own = client_for(of_cap).generic(
        method, path, json.dumps(BODIES[case] or {}), content_type=JSON
    )
    assert own.status_code != 403, own.content


def test_a_person_and_a_key_without_a_list_use_every_model(
    project, alice, client_for, api_key
) -> None:
    client = Client()
    client.force_login(alice)
    for asking in (client, client_for(api_key)):
        answer = asking.post("/v1/sessions", ANOTHER, content_type=JSON)
        assert answer.json()["error"]["code"] == "unknown_base_model"


@pytest.mark.parametrize("limit", [{"allowed_models": ["m"]}, {"spend_cap_s": 5}])
def test_an_admin_key_with_limits_is_refused_because_it_could_make_one_without(
    limit, alice
) -> None:
    client = Client()
    client.force_login(alice)
    answer = client.post("/v1/keys", {"scopes": ["admin"], **limit}, content_type=JSON)
    assert answer.status_code == 400, answer.content


@pytest.mark.parametrize(
    "limit",
    [
        {"allowed_models": []}, {"allowed_models": [""]}, {"spend_cap_s": 0}, {"spend_cap_s": -1}, {"cap": 1},
        # a key that is listed with thousands of them would make each list megabytes
        {"scopes": ["admin"] * 6},
    ],
)  # fmt: skip
def test_a_limit_that_means_nothing_is_refused_by_name(limit, alice) -> None:
    client = Client()
    client.force_login(alice)
    answer = client.post("/v1/keys", limit, content_type=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["fields"][0]["field"].startswith(next(iter(limit)))


# -- Spending ---------------------------------------------------------------------------------------------------------


def test_a_key_that_spent_its_cap_starts_nothing_more(project, alice, client_for) -> None:
    key, secret = limited(project, alice, spend_cap_s=100)
    session = factories.session_make(project, key=key, state=SessionState.STOPPED)
    spend(session, 60)
    client = client_for(secret)
    body = {"base_model": factories.BASE_MODEL}
    assert client.post("/v1/sessions", body, content_type=JSON).status_code == 201
    spend(session, 25, gpus=2)  # 50 more, on two devices
    refused = client.post("/v1/sessions", body, content_type=JSON)
    assert refused.status_code == 402
    error = refused.json()["error"]
    assert (error["code"], error["details"]["left_s"]) == ("budget_exhausted", 0)
    assert error["details"]["spent_s"] == pytest.approx(110)
    assert (
        client_for(factories.key_make(project, alice))
        .post("/v1/sessions", body, content_type=JSON)
        .status_code
        == 201
    )


def test_sessions_of_a_key_that_spent_its_cap_are_stopped_in_good_order(project, alice) -> None:
    key, _ = limited(project, alice, spend_cap_s=100)
    other, _ = limited(project, alice, spend_cap_s=1000)
    over, waiting, fine, free = (
        factories.session_make(project, key=key, state=SessionState.READY),
        factories.session_make(project, key=key),
        factories.session_make(project, key=other, state=SessionState.READY),
        factories.session_make(project, state=SessionState.READY),
    )
    for session in (over, fine, free):
        spend(session, 99.5)
    sessions_over_budget_stop()
    assert set(Session.objects.values_list("desired", flat=True)) == {"run"}
    spend(over, 1)
    sessions_over_budget_stop()
    states = {row.id: (row.state, row.desired) for row in Session.objects.all()}
    assert states[over.id] == ("ready", "stop")  # it saves its state before it ends
    assert states[waiting.id] == ("cancelled", "stop")
    assert states[fine.id] == states[free.id] == ("ready", "run")


def test_the_list_of_keys_shows_what_each_spent_and_who_made_it(project, alice) -> None:
    key, _ = limited(project, alice, spend_cap_s=100)
    spend(factories.session_make(project, key=key), 12.5)
    client = Client()
    client.force_login(alice)
    (shown,) = client.get("/v1/keys").json()["items"]
    assert shown["spent_s"] == pytest.approx(12.5)
    assert (shown["spend_cap_s"], shown["created_by"]) == (100, alice.email)


# -- The end of a key -------------------------------------------------------------------------------------------------


def test_people_revoke_their_own_keys_and_an_owner_everyones(project, alice, member) -> None:
    hers, _ = limited(project, alice)
    theirs, _ = limited(project, member)
    client = Client(headers={"X-Project-Id": project.id})
    client.force_login(member)
    assert client.delete(f"/v1/keys/{hers.id}").status_code == 403
    assert client.delete(f"/v1/keys/{theirs.id}").status_code == 204
    another, _ = limited(project, member)
    client.force_login(alice)
    assert client.delete(f"/v1/keys/{another.id}").status_code == 204
    assert ApiKey.objects.filter(revoked_at=None).get() == hers


def revoke(project: Project, alice: User, key: ApiKey) -> None:
    key_revoke(project=project, user=alice, key_id=key.id)


def expire(project: Project, alice: User, key: ApiKey) -> None:
    ApiKey.objects.filter(id=key.id).update(expires_at=timezone.now())


def remove_maker(project: Project, alice: User, key: ApiKey) -> None:
    member = member_list(project=project).get(user=key.user)
    member_remove(project=project, user=alice, member_id=member.member_id)


def demote_maker(project: Project, alice: User, key: ApiKey) -> None:
    member = member_list(project=project).get(user=key.user)
    member_role_set(project=project, member_id=member.member_id, role=Role.VIEWER)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", [revoke, expire, remove_maker, demote_maker])
async def test_within_a_second_of_its_end_a_key_does_nothing_on_rest_or_relay(
    end, gateway: FakeGateway, served: Session, project, alice, member, monkeypatch
) -> None:
    key, secret = await sync_to_async(limited)(project, member)
    token = episode_key(served.id, key_id=key.id)

    async def status(path: str, bearer: str) -> int:
        return (await Call(application, "POST", path, key=bearer, body=b"{}").answer())[0]

    monkeypatch.setattr(callers.callers, "_clock", clock := FakeClock())
    relayed, begun = (
        ("/openai/v1/chat/completions", token),
        (f"/v1/sessions/{served.id}/episodes", secret),
    )
    for _ in range(3):  # the relay knows the key well when it ends
        assert await status(*relayed) == 200
    assert await status(*begun) == 200
    await sync_to_async(end)(project, alice, key)
    assert await status(*begun) in (401, 403)
    reached = len(gateway.requests)
    clock.advance(1.0)
    assert await status(*relayed) == 401
    assert len(gateway.requests) == reached


@pytest.mark.django_db(transaction=True)
async def test_an_answer_in_full_flow_breaks_off_within_a_second_of_the_keys_end(
    gateway: FakeGateway, served: Session, project, alice, monkeypatch
) -> None:
    key, _ = await sync_to_async(limited)(project, alice)
    is_gone, pauses = asyncio.Event(), []
    monkeypatch.setattr(callers.callers, "_clock", clock := FakeClock())

    async def pause(seconds: float) -> None:
        """Between two looks: their clock goes on by as much as they wait, and by nothing else."""
        pauses.append(seconds)
        clock.advance(seconds)
        await asyncio.sleep(0.001)

    monkeypatch.setattr(callers, "asyncio", SimpleNamespace(sleep=pause))

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"data: more\n\n")
                await asyncio.sleep(0.01)
        finally:
            is_gone.set()

    gateway.answer = endless
    token = episode_key(served.id, key_id=key.id)
    call = Call(application, "POST", "/openai/v1/chat/completions", key=token, body=b"{}")
    assert (await call.start())[0] == 200
    await sync_to_async(revoke)(project, alice, key)
    until_its_end = len(pauses) - 1  # the pause that was under way counts whole
    body = await call.body()
    assert sum(pauses[until_its_end:]) <= 1.0
    # its clients raise it: they do not take half an answer for a whole one
    assert b"revoked" in body[-500:]
    async with asyncio.timeout(25):
        await is_gone.wait()


@pytest.mark.django_db(transaction=True)
async def test_episodes_of_another_key_and_of_a_person_go_on(
    gateway, served, project, alice
) -> None:
    ended, _ = await sync_to_async(limited)(project, alice)
    other, _ = await sync_to_async(limited)(project, alice)
    await sync_to_async(revoke)(project, alice, ended)
    for key_id, expected in [(ended.id, 401), (other.id, 200), ("", 200), ("key_nothing", 401)]:
        token = episode_key(served.id, key_id=key_id)
        got, _, _ = await Call(
            application, "POST", "/openai/v1/chat/completions", key=token, body=b"{}"
        ).answer()
        assert got == expected, key_id


@pytest.mark.django_db(transaction=True)
async def test_the_gateway_gets_which_key_begins_an_episode(
    gateway, served, project, alice
) -> None:
    key, secret = await sync_to_async(limited)(project, alice)
    path = f"/v1/sessions/{served.id}/episodes"
    await Call(application, "POST", path, key=secret, body=b"{}", x_key_id="key_forged").answer()
    assert [request.headers["X-Key-Id"] for request, _ in gateway.requests] == [key.id]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", [remove_maker, demote_maker])
async def test_an_episode_that_a_person_began_ends_with_their_membership(
    end, gateway, served, project, alice, member, monkeypatch
) -> None:
    monkeypatch.setattr(callers.callers, "_clock", clock := FakeClock())
    cookie = await cookie_of(member)
    headers = {"cookie": cookie.decode(), "x_csrftoken": "x" * 32, "x_project_id": project.id}
    headers["cookie"] += f"; csrftoken={'x' * 32}"
    await Call(
        application, "POST", f"/v1/sessions/{served.id}/episodes", body=b"{}", **headers
    ).answer()
    ((begun, _),) = gateway.requests
    token = episode_key(served.id, key_id=begun.headers["X-Key-Id"])

    async def status() -> int:
        return (
            await Call(
                application, "POST", "/openai/v1/chat/completions", key=token, body=b"{}"
            ).answer()
        )[0]

    assert await status() == 200
    await sync_to_async(end)(project, alice, ApiKey(user=member))
    clock.advance(1.0)
    assert await status() == 401
    if end is remove_maker:
        await sync_to_async(invite_again)(project, alice, member)
        clock.advance(1.0)
        assert await status() == 401, "an invitation later revives nothing"


def invite_again(project: Project, alice: User, member: User) -> None:
    EmailAddress.objects.create(user=member, email=member.email, verified=True)
    invited = member_invite(project=project, email=member.email, role=Role.MEMBER, by=alice)
    invitation_accept(user=member, member_id=invited.member_id)


def test_a_scope_is_needed_for_what_it_names(project, alice, client_for) -> None:
    _, secret = key_create(project=project, user=alice, name="", scopes=[Scope.SESSIONS_READ])
    answer = client_for(secret).get("/v1/usage")
    assert answer.status_code == 200
    assert client_for(secret).get("/v1/audit").status_code == 403
